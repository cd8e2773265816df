"""Which breakpoints a run stops at, and what costs nothing where it stops at none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from fcntl import LOCK_EX, LOCK_UN, flock
from pathlib import Path
from typing import Any

import pytest

import astuner
from astuner.breakpoints.selection import REACHED, TAGS, is_selected, note_first, read_tags, select_breakpoints, split_tags
from astuner.contract.errors import UsageError
from astuner.runs.driver.launch import start_run
from astuner.runs.driver.run_request import RunRequest
from astuner_devkit.project import write_project


def test_tags_come_in_lists_in_either_spelling_and_again_and_again() -> None:
    assert split_tags(["A,B", "C|D", "A", "E F"]) == ("A", "B", "C", "D", "E", "F")


def test_a_list_without_a_tag_says_what_to_write() -> None:
    with pytest.raises(UsageError, match=r"--db ',': name the tags of astuner\.breakpoint\(\"TAG\"\)"):
        split_tags([","])


def test_only_what_was_asked_for_is() -> None:
    with select_breakpoints(("A",)):
        assert [is_selected("A"), is_selected("B")] == [True, False]
    assert read_tags() == ()


def test_one_of_several_processes_records_a_word_first() -> None:
    with select_breakpoints(("A",)), Path(os.environ[REACHED]).open("a") as other, ThreadPoolExecutor(2) as pool:
        flock(other, LOCK_EX)  # as another process holds it that looks whether the word is there
        found = [pool.submit(note_first, "B") for _ in range(2)]
        assert wait(found, timeout=0.3).done == set()
        flock(other, LOCK_UN)
        assert sorted(one.result() for one in found) == [False, True]
        assert not note_first("B")


def test_all_is_every_tag() -> None:
    with select_breakpoints(("all",)):
        assert is_selected("whatever")


@pytest.mark.parametrize("tag", ["", "all", "A,B", "A|B", "A B"])
def test_a_tag_that_nobody_could_ask_for_is_refused(tag: str) -> None:
    with select_breakpoints(("A",)), pytest.raises(ValueError, match="a tag must not be"):
        astuner.breakpoint(tag)


def test_without_a_question_a_breakpoint_loads_nothing_and_does_nothing() -> None:
    code = "import sys, astuner; astuner.breakpoint('A'); assert {'pdb', 'astuner.breakpoints.stopping'}.isdisjoint(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_tags_without_a_package_that_stops_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astuner.settings.plugins.functions.entry_points", lambda **_: ())
    with pytest.raises(UsageError, match=r"--db: what stops at a breakpoint is not installed: pip install .*astuner-tools"):
        start_run(RunRequest(conf=Path("none.yaml"), stop_at=["A"]))


def test_a_dry_run_without_a_package_that_estimates_names_it(monkeypatch: pytest.MonkeyPatch, cli: Any, tmp_path: Path) -> None:
    monkeypatch.setattr("astuner.settings.plugins.functions.entry_points", lambda **_: ())
    shown = cli("run", "--conf", write_project(tmp_path), "--dry-run")
    assert shown.code == 2
    assert re.search(r"--dry-run: what estimates a run is not installed: pip install .*astuner-tools", shown.err)


def test_what_other_processes_reached_is_known() -> None:
    with select_breakpoints(("A", "B", "C")) as asked:
        note_first("A")
        code = "from astuner.breakpoints.selection import note_first; assert note_first('B'); assert not note_first('A')"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
        assert asked.list_unreached() == ["C"]


def test_all_is_unreached_where_nothing_was() -> None:
    with select_breakpoints(("all",)) as asked:
        note_first("no terminal")
        assert asked.list_unreached() == ["all"]
        note_first("A")
        assert asked.list_unreached() == []


def test_what_was_asked_before_is_asked_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TAGS, "X")
    with select_breakpoints(("A",)):
        assert os.environ[TAGS] == "A"
    assert os.environ[TAGS] == "X"
    assert REACHED not in os.environ
