"""From what tests leave and print to rewards."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_agents.task_folders.playing.errors import VerificationFailed
from astuner_agents.task_folders.playing.reward_files import choose_reward, read_rewards
from astuner_agents.task_folders.playing.verifier_output import parse_output

SUMMARY = """
=== short test summary info ===
FAILED a.py::test_fake - printed by a test
======================= short test summary info ========================
PASSED tests/test_outputs.py::test_one
PASSED ../tests/test_outputs.py::TestA::test_two[a - b]
SKIPPED [1] tests/test_outputs.py:3: not here
XFAIL tests/test_outputs.py::test_three
FAILED tests/test_outputs.py::test_four - AssertionError: a - b
ERROR tests/test_outputs.py::test_five
XPASS tests/test_outputs.py::test_six
===== 2 failed, 2 passed =====
"""


def test_a_text_is_the_reward() -> None:
    assert read_rewards("reward.txt", " 0.25\n") == {"reward": 0.25}


def test_numbers_by_name_are_rewards() -> None:
    assert read_rewards("reward.json", '{"reward": 1, "parts": 0.5, "found": true}') == {"reward": 1, "parts": 0.5, "found": 1}


@pytest.mark.parametrize(
    ("rewards", "reward"),
    [({"reward": 0.5, "other": 1.0}, 0.5), ({"score": 0.25}, 0.25), ({"a": 1.0, "b": 0.0}, None)],
)
def test_the_reward_is_the_one_of_that_name_or_the_only_one(rewards: dict[str, float], reward: float | None) -> None:
    assert choose_reward(rewards) == reward


@given(st.sampled_from(["reward.txt", "reward.json"]), st.text(max_size=50))
def test_any_text_is_finite_rewards_or_a_reason(name: str, text: str) -> None:
    assert all(math.isfinite(value) for value in read_or_refuse(name, text).values())


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_json_is_finite_rewards_or_a_reason(value: object) -> None:
    assert all(math.isfinite(one) for one in read_or_refuse("reward.json", json.dumps(value)).values())


def read_or_refuse(name: str, text: str) -> Mapping[str, float]:
    try:
        return read_rewards(name, text)
    except VerificationFailed:
        return {}


def test_the_last_summary_of_pytest_counts() -> None:
    assert parse_output("pytest", SUMMARY) == {
        "test_one": True,
        "TestA::test_two[a": True,
        "[1] tests/test_outputs.py:3: not here": True,
        "test_three": True,
        "test_four": False,
        "test_five": False,
        "test_six": False,
    }


@pytest.mark.parametrize(("result", "passed"), [("PASSED", True), ("FAILED", False), ("", False)])
def test_a_block_of_the_output_is_the_result(result: str, passed: bool) -> None:
    text = f"noise\nSWEBench results starts here\n{result}\nSWEBench results ends here\nmore"
    assert parse_output("swebench", text) == {"tests": passed}


@pytest.mark.parametrize(
    ("parser", "text", "words"),
    [
        ("pytest", "3 passed", "did not print pytest's short summary"),
        ("pytest", "== short test summary info ==\nnothing", "names no test"),
        ("swebench", "PASSED", "did not print 'SWEBench results starts here'"),
        ("swelancer", "a", "the parser 'swelancer' cannot be read; it can for pytest, swebench"),
    ],
)
def test_output_that_shows_nothing_has_a_reason(parser: str, text: str, words: str) -> None:
    with pytest.raises(VerificationFailed, match=words):
        parse_output(parser, text)
