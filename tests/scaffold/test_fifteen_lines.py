"""A third party's judge, from `plugin new` to a green `astuner run`: how many lines one has to change."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from astuner_devkit.project import write_project

if TYPE_CHECKING:
    from conftest import Build, New, Python

LIMIT = 15

COMPONENT = {
    '"""A judge that compares answers with the expected ones."""': '"""A judge that compares numbers."""',
    "        ignore_case: bool = True\n": "        tolerance: float = 0.01\n",
    '"""Whether `Paris` and `PARIS` are the same answer."""': '"""How far from the expected number an answer may be."""',
    """        if self._options.ignore_case:
            given, expected = given.casefold(), expected.casefold()
        return given.strip() == expected.strip()
""": """        try:
            return abs(float(given) - float(expected)) <= self._options.tolerance
        except ValueError:
            return False
""",
}
TESTS = {
    'TASK = {"main_query": "The capital of France?", "answer": "Paris"}': 'TASK = {"main_query": "10 / 4?", "answer": "2.5"}',
    'replies=("paris",)).rewards == [1.0]': 'replies=("2.501",)).rewards == [1.0]',
    "def test_case_counts_when_the_yaml_says_so": "def test_the_tolerance_is_that_of_the_yaml",
    '{"ignore_case": False}': '{"tolerance": 0.0001}',
    'replies=("paris",), settings': 'replies=("2.501",), settings',
}
README = {
    "      ignore_case: true": "      tolerance: 0.01",
    "| `ignore_case` | `true` | whether `Paris` and `PARIS` are the same answer |": (
        "| `tolerance` | `0.01` | how far from the expected number an answer may be |"
    ),
}


def edit(file: Path, changes: Mapping[str, str]) -> int:
    """Make the changes that an author makes; return how many lines they are."""
    before = after = file.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in after, old
        after = after.replace(old, new)
    file.write_text(after, encoding="utf-8")
    matcher = SequenceMatcher(a=before.splitlines(), b=after.splitlines(), autojunk=False)
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal")


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory, new: New) -> tuple[Path, int]:
    """A judge of one's own, and how many lines were changed for it, those of its tests and its README included."""
    source = new("judge", "acme-close-enough", tmp_path_factory.mktemp("judge"))
    module = "acme_close_enough"
    changed = edit(source / "src" / f"{module}.py", COMPONENT)
    changed += edit(source / "tests" / f"test_{module}.py", TESTS)
    changed += edit(source / "README.md", README)
    return source, changed


@pytest.fixture(scope="module")
def environment(edited: tuple[Path, int], build: Build) -> Path:
    """The Python of an environment in which it is installed."""
    return build(edited[0])[1]


def test_it_takes_no_more_than_fifteen_changed_lines(edited: tuple[Path, int]) -> None:
    assert 0 < edited[1] <= LIMIT


def test_its_tests_pass(edited: tuple[Path, int], environment: Path, python: Python, tmp_path: Path) -> None:
    assert " passed" in python("-m", "pytest", "-q", "-p", "no:cacheprovider", edited[0], cwd=tmp_path, executable=environment)


def test_astuner_run_is_green_and_judges_by_it(environment: Path, python: Python, tmp_path: Path) -> None:
    # The one line of a YAML that chooses a judge.
    settings = {"task_judge": {"judge_type": "acme_close_enough"}}
    tasks = [{"task_id": expected, "main_query": "10 / 4?", "answer": expected} for expected in ("2.5", "2.51", "2.6", "none")]
    conf = write_project(tmp_path, tasks=tasks, replies=["2.501"], settings=settings)
    python("-m", "astuner", "run", "--conf", conf, "--backbone", "debug", cwd=tmp_path, executable=environment)
    metrics = (tmp_path / "launcher_record" / "project.debug" / "metrics.jsonl").read_text()
    assert '"reward/mean": 0.5' in metrics
