"""The skills are in the open format of `SKILL.md`, short, and what they and `AGENTS.md` link to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
SKILLS = sorted((REPOSITORY / "skills").glob("*/SKILL.md"))
NAMES = ["publish-a-plugin", "tune-my-agent", "why-does-it-not-learn", "write-a-judge"]
LONGEST_DESCRIPTION = 1024
"""Characters, of the format."""


def test_these_are_the_skills() -> None:
    assert [path.parent.name for path in SKILLS] == NAMES


@pytest.mark.parametrize("path", SKILLS, ids=lambda path: path.parent.name)
def test_its_front_matter_says_what_it_is_and_when_it_is_used(path: Path) -> None:
    empty, head, body = path.read_text(encoding="utf-8").split("---\n", 2)
    front = yaml.safe_load(head)
    assert empty == ""
    assert {*front} == {"name", "description"}
    assert front["name"] == path.parent.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", front["name"])
    assert len(front["name"]) <= 64
    assert len(front["description"]) <= LONGEST_DESCRIPTION
    assert " Use when " in front["description"]
    assert len(body.split()) <= 450


@pytest.mark.parametrize("path", SKILLS, ids=lambda path: path.parent.name)
def test_it_says_when_to_ask_a_person(path: Path) -> None:
    assert re.search(r"\*\*(Stop and ask|Ask) the person|\*\*Stop here", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", SKILLS, ids=lambda path: path.parent.name)
def test_its_commands_print_json(path: Path) -> None:
    commands = re.findall(r"^ *(astuner .*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert commands
    assert [command for command in commands if not command.endswith(" --json")] == []


def test_the_page_of_agents_links_every_skill() -> None:
    page = (REPOSITORY / "docs" / "driving_by_agents.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"(../skills/{name}/SKILL.md)" not in page] == []
    assert len(page.split()) <= 400


def test_what_agents_read_first_is_short() -> None:
    assert len((REPOSITORY / "AGENTS.md").read_text(encoding="utf-8").splitlines()) <= 40
