"""The README's picture shows what the quickstart prints."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import pytest
from page_commands import Bash

REPOSITORY = Path(__file__).parents[2]
PICTURE = REPOSITORY / "docs" / "images" / "quickstart.svg"
CHARACTER = 12.2
"""The width of one in the picture."""


def read_lines(picture: Path) -> list[str]:
    """Return the lines of a drawn terminal, without its title."""
    lines: defaultdict[float, dict[int, str]] = defaultdict(dict)
    for text in ElementTree.fromstring(picture.read_text(encoding="utf-8")).iter("{http://www.w3.org/2000/svg}text"):
        if "textLength" in text.attrib:
            lines[float(text.attrib["y"])][round(float(text.attrib["x"]) / CHARACTER)] = text.text or ""
    return [_join(lines[y]).replace("\xa0", " ").rstrip() for y in sorted(lines)]


def _join(parts: dict[int, str]) -> str:
    line = ""
    for column in sorted(parts):
        line = line.ljust(column) + parts[column]
    return line


def split_table(lines: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the header of the table, and the figures of each row by its label."""
    (start,) = [number for number, line in enumerate(lines) if re.match(r" +step +reward", line)]
    rows = [re.split(r" {2,}", line.strip()) for line in lines[start + 2 : lines.index("", start + 2)]]
    return lines[start].split(), {label: figures for label, *figures in rows}


@pytest.fixture(scope="session")
def drawn(clone: Path, activated_bash: Bash, first_command_said: str) -> list[str]:
    """The lines of a picture of what the README's first command has made."""
    activated_bash("python docs/draw_quickstart.py my-agent --out drawn.svg", clone)
    return read_lines(clone / "drawn.svg")


def test_the_picture_is_drawn_as_the_one_of_the_readme(drawn: list[str]) -> None:
    of_readme = read_lines(PICTURE)
    header, rows = split_table(drawn)
    assert (header, list(rows)) == (split_table(of_readme)[0], list(split_table(of_readme)[1]))
    assert drawn[0] == of_readme[0] == "$ astuner quickstart my-agent"
    assert [line for line in of_readme if re.search(r"before +after|tasks solved +0/64 +6\d/64|^  (before|after)$", line)]


def test_every_figure_of_the_table_is_one_that_the_console_shows(drawn: list[str], first_command_said: str) -> None:
    _, rows = split_table(drawn)
    assert len(rows) > 10
    for label, figures in rows.items():
        step, _, validation = label.partition(" ")
        (line,) = re.findall(rf"^step {step}: {validation and 'val '}reward.*$", first_command_said, re.MULTILINE)
        assert [figure for figure in figures if figure not in line] == []


def test_the_rest_of_the_picture_is_the_report(drawn: list[str], first_command_said: str) -> None:
    start = next(number for number, line in enumerate(drawn) if line.startswith("Validation, "))
    assert "\n".join(drawn[start:]) in "\n".join(line.rstrip() for line in first_command_said.splitlines())


def test_the_picture_is_small_and_fetches_nothing() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    assert len(text.encode()) < 60_000
    assert re.findall(r"https?://[^\"]*|href|@import|<script", text) == ["http://www.w3.org/2000/svg"]
    assert re.findall(r"url\((?!#)", text) == []
