from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

from astuner.contract.schema import Failure, Unjudged
from astuner.runs.driver.episode_faults import EpisodeFaults
from astuner_devkit.episodes import episode, group


def failed(repeat, place="agent.py:12 in solve", step=1):
    failure = Failure(reason="workflow_error", detail="KeyError: 'x' (agent.py:12 in solve)", place=place, traceback="Traceback")
    return evolve(episode(repeat, None, step=step), output=None, verdict=None, samples=(), failures=(failure,))


def unreadable(repeat, text="<tool_call>{a}", step=1):
    found = episode(repeat, step=step)
    reply = {"role": "assistant", "content": text, "malformed_tool_call": 2}
    return evolve(found, calls=(evolve(found.calls[0], reply=reply),))


def cut(repeat, reason="length", step=1, **changes):
    found = episode(repeat, step=step)
    reply = {"role": "assistant", "content": "", "reasoning_content": "hm", "cut_reasoning": True}
    call = evolve(found.calls[0], reply=reply, finish_reason=reason)
    return evolve(found, calls=(call,), **changes)


def test_a_place_that_fails_is_reported_once_with_the_count_of_its_step():
    faults = EpisodeFaults(Path("runs/a"))
    (said,) = faults.add([group(failed(0), episode(1), failed(2))])
    assert said == (
        "the agent failed at agent.py:12 in solve in 2 of 3 episodes of step 1 (train), first in train/1/t/0: "
        "KeyError: 'x' (agent.py:12 in solve). The traceback is shown by `astuner episodes runs/a --failed`"
    )
    assert faults.summarise() == []


def test_what_fails_again_is_counted_at_the_end():
    faults = EpisodeFaults(Path("runs/a"))
    faults.add([group(failed(0), failed(1))])
    assert faults.add([group(failed(0, step=2))]) == []
    assert faults.summarise() == ["in all, 3 episodes: the agent failed at agent.py:12 in solve"]


def test_a_judge_that_raises_is_named_as_one():
    broken = Unjudged(reason="judge_error", detail="KeyError: 'x'", place="judge.py:3 in score", traceback="Traceback")
    (said,) = EpisodeFaults(Path("a")).add([group(evolve(episode(0), verdict=broken))])
    assert said.startswith("the judge failed at judge.py:3 in score in 1 of 1 episodes of step 1")


def test_limits_of_an_episode_are_not_errors_of_a_place():
    timeout = evolve(failed(0), failures=(Failure(reason="timeout", detail="over 60 s"),))
    assert EpisodeFaults(Path("a")).add([group(timeout)]) == []


def test_many_places_are_not_reported_one_by_one():
    faults = EpisodeFaults(Path("a"))
    said = faults.add([group(*(failed(repeat, f"agent.py:{repeat} in solve") for repeat in range(50)))])
    assert len(said) == 10
    assert len(faults.summarise()) == 10


def test_an_unreadable_tool_call_names_its_episode_and_its_text_and_is_counted_at_the_end():
    faults = EpisodeFaults(Path("a"))
    (said,) = faults.add([group(episode(0), unreadable(1, "x" * 500))])
    assert said.startswith(
        "train/1/t/1: a tool call could not be read and stayed in the content (2 in 2 episodes of step 1): xxx"
    )
    assert len(said) < 350
    assert faults.add([group(unreadable(0, step=2))]) == []
    assert faults.summarise() == ["in all, 4 tool calls could not be read, in 2 episodes"]


@pytest.mark.parametrize(
    ("reason", "keys"),
    [
        ("length", "rollout.max_response_length_in_one_turn, or the max_tokens of the agent"),
        ("context", "rollout.max_model_len and data.max_response_length"),
    ],
)
def test_training_on_reasoning_that_was_cut_off_is_reported_once_with_the_limit(reason, keys):
    faults = EpisodeFaults(Path("a"))
    (said,) = faults.add([group(episode(0), cut(1, reason), cut(2, reason))])
    assert said.startswith("2 of 3 episodes of step 1 train on reasoning that a limit cut off, first train/1/t/1, ")
    assert f"Raise {keys}; or set trainer_common.algorithm.overlong_filter" in said
    assert faults.add([group(cut(0, step=2))]) == []


def untrain(found):
    return evolve(found, samples=tuple(evolve(one, mask=np.zeros_like(one.mask)) for one in found.samples))


@pytest.mark.parametrize(
    "left_out", [untrain(cut(0)), cut(0, split="validation"), cut(0, verdict=None), cut(0, samples=())], ids=range(4)
)
def test_reasoning_that_was_cut_off_and_is_not_trained_is_not_reported(left_out):
    assert EpisodeFaults(Path("a")).add([group(left_out)]) == []
