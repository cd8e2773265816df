from __future__ import annotations

from pathlib import Path

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
