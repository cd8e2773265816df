"""The plugin directory is up to date, and an entry with a mistake is refused with its place, its value and the remedy."""

from __future__ import annotations

import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from harness import REPOSITORY

FILE = REPOSITORY / "scripts" / "write_plugin_directory.py"
SCRIPT: dict[str, Any] = runpy.run_path(str(FILE))
LINES = {
    "name": "strict",
    "package": "acme-judges",
    "kind": "judge",
    "summary": "Accepts nothing but the exact answer.",
    "maintainer": "Acme",
    "url": "https://example.org/acme-judges",
    "tested_with": "0.2",
}


def write_entry(**changes: str) -> str:
    return "[[plugin]]\n" + "".join(f"{key} = '{value}'\n" for key, value in (LINES | changes).items())


def find_mistakes(text: str) -> list[str]:
    return [*SCRIPT["find_mistakes"](text, ours=["astuner-judges"])]


def test_the_page_is_up_to_date() -> None:
    text = SCRIPT["DIRECTORY"].read_text(encoding="utf-8")
    assert [*SCRIPT["find_mistakes"](text, ours=SCRIPT["list_ours"]())] == []
    assert SCRIPT["PAGE"].read_text(encoding="utf-8") == SCRIPT["format_page"](text), "run scripts/write_plugin_directory.py"


def test_every_package_of_this_repository_is_on_the_page() -> None:
    page = SCRIPT["PAGE"].read_text(encoding="utf-8")
    projects = [*REPOSITORY.glob("plugins/*/pyproject.toml"), *REPOSITORY.glob("tutorial/plugins/*/pyproject.toml")]
    names = [tomllib.loads(path.read_text(encoding="utf-8"))["project"]["name"] for path in projects]
    assert len(names) > 20
    assert [name for name in names if f"[`{name}`]" not in page] == []


def test_a_good_entry_has_no_mistake() -> None:
    assert find_mistakes(write_entry()) == []


@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        ({"kind": "jugde"}, "kind: 'jugde' is not a kind of plugin; did you mean 'judge'?"),
        ({"kind": "workflow"}, "kind: 'workflow' is not a kind of plugin; write one of `reader`"),
        ({"package": "Acme_Judges"}, "package: 'Acme_Judges' is not how indexes spell it; write 'acme-judges'"),
        ({"package": "acme judges"}, "package: 'acme judges' cannot be installed by that name"),
        ({"package": "astuner-judges"}, "package: 'astuner-judges' is a package of this repository"),
        ({"url": "http://example.org"}, "url: 'http://example.org' is not an address; write `https://…`"),
        ({"url": "../nowhere/"}, "url: '../nowhere/' is not an address"),
        ({"summary": "Strict"}, "summary: 'Strict' has 6 characters; write one sentence of at most 120"),
        ({"summary": "A | B."}, "summary: 'A | B.' has 6 characters"),
        ({"name": "a strict one"}, "name: 'a strict one' is not the name of an entry point"),
        ({"tested_with": "newest"}, "tested_with: 'newest' is not a version; write the version of astuner"),
        ({"maintainer": " "}, "maintainer: ' '; write a person or an organisation"),
        ({"sumary": "x"}, "sumary: not a line of an entry; did you mean 'summary'?"),
    ],
)
def test_a_mistake_is_named(changes: dict[str, str], mistake: str) -> None:
    (found,) = find_mistakes(write_entry(**changes))
    assert found.startswith(f"entry 1 ({changes.get('package', 'acme-judges')}): {mistake}")


def test_a_missing_line_and_a_second_entry_are_named() -> None:
    without = write_entry().replace("kind = 'judge'\n", "")
    assert find_mistakes(without)[0].startswith("entry 1 (acme-judges): kind: missing; write one of")
    assert find_mistakes(write_entry() * 2) == [
        "entry 2 (acme-judges): 'acme-judges judge strict' is listed twice; remove one of the entries"
    ]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("[[plugin]\n", "not valid TOML: "),
        ("[plugin]\nname = 'x'\n", "plugin: one table; an entry begins with [[plugin]], in double brackets"),
        ("[[plugins]]\n", "plugins: not part of the directory; an entry begins with [[plugin]]"),
    ],
)
def test_a_file_of_another_shape_is_refused(text: str, mistake: str) -> None:
    (found,) = find_mistakes(text)
    assert found.startswith(mistake)


def test_the_command_line_prints_the_mistakes(tmp_path: Path) -> None:
    (tmp_path / "directory.toml").write_text(write_entry(kind="jugde"), encoding="utf-8")
    command = [sys.executable, str(FILE), str(tmp_path / "directory.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{tmp_path / 'directory.toml'}: entry 1 (acme-judges): kind: 'jugde'")
