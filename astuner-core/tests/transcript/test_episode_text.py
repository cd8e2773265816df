"""An episode as text: what a person sees of what was said, trained and rewarded."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve

from astuner.contract.schema import Call, Episode, Failure, Task, Unjudged, Verdict
from astuner.episodes.transcript.episode_text import Details, format_outcome, format_transcript
from astuner.episodes.transcript.terminal_text import Page, strip_colours
from astuner_devkit.episodes import episode, sample

CALL = {
    "parent": None,
    "kept": 0,
    "prompt_ids": np.array([5, 6], np.int32),
    "logprobs": np.zeros(3, np.float32),
    "finish_reason": "stop",
}


def make_call(answer: Any, index: int = 0, agent: str = "agent", **fields: Any) -> Call:
    reply = answer if isinstance(answer, dict) else {"role": "assistant", "content": answer}
    output = np.array([7, 8, 2], np.int32)
    return Call(**{**CALL, "index": index, "agent": agent, "target_tag": agent, "reply": reply, "output_ids": output, **fields})


def make_episode(*calls: Call, **fields: Any) -> Episode:
    return evolve(episode(), calls=calls, samples=(), **fields)


def decode(ids: Any) -> str:
    return "".join(f"<{number}>" for number in ids)


def test_speakers_reasoning_and_tool_calls_have_lines_of_their_own() -> None:
    call = {"function": {"name": "add", "arguments": '{"a": 1}'}}
    reply = {"role": "assistant", "reasoning_content": "hm\nwell", "content": "so", "tool_calls": [call]}
    asked = ({"role": "user", "content": [{"type": "text", "text": "π?"}]},)
    assert format_transcript(make_episode(make_call(reply, agent="solver", messages=asked))).splitlines() == [
        "episode train/1/t/0: π?",
        "  user: π?",
        "  assistant (solver): <think> hm",
        "      well",
        "  assistant (solver): so",
        '  assistant (solver): -> add({"a": 1})',
        "  reward 1",
    ]


def test_each_call_says_what_was_fed_sampled_and_trained() -> None:
    trained = evolve(sample("train/1/t/0"), ids=np.array([5, 6, 7, 8, 2], np.int32), mask=np.array([0, 0, 1, 1, 1], bool))
    trained = evolve(trained, logprobs=np.zeros(5, np.float32))
    found = evolve(make_episode(make_call("yes"), make_call("no", 1, untrained="frozen_agent")), samples=(trained,))
    lines = format_transcript(found, tokens=True).splitlines()
    assert "    [call 0: main line, 2 ids fed, 3 sampled, all trained, stop]" in lines
    assert "    [call 1: side conversation, 2 ids fed, 3 sampled, 0 trained (frozen_agent), stop]" in lines


def test_an_answer_that_is_trained_in_part_is_shown_token_by_token() -> None:
    half = evolve(sample("train/1/t/0"), ids=np.array([5, 6, 7, 8, 2], np.int32), mask=np.array([0, 0, 0, 1, 1], bool))
    half = evolve(half, logprobs=np.zeros(5, np.float32))
    found = evolve(make_episode(make_call("yes"), untrained={"over_sample_limit": 1}), samples=(half,))
    lines = format_transcript(found, tokens=Details(decode=decode)).splitlines()
    assert "    [call 0: 2 ids fed, 3 sampled, 2 trained (over_sample_limit), stop]" in lines
    assert "    trained in part, [[so]]: <7>[[<8><2>]]" in lines
    shown = format_transcript(found, tokens=Details(decode=decode), page=Page(colour=True))
    assert "\x1b[33m<7>\x1b[0m\x1b[32m[[<8><2>]]\x1b[0m" in shown
    assert strip_colours(shown).splitlines() == lines


def test_a_reward_comes_with_its_parts_and_reasons() -> None:
    verdict = Verdict(0.75, True, components={"format": 0.5}, rewards={"solver": 1.0, "critic": 0.5}, rationale="short")
    assert (
        format_outcome(make_episode(verdict=verdict))
        == "reward 0.75, success; format 0.5; by agent: solver 1, critic 0.5 (short)"
    )
    assert format_outcome(make_episode(verdict=Verdict(0.0, rationale="one\ntwo"))) == "reward 0\none\ntwo"
    assert (
        format_outcome(make_episode(verdict=Unjudged(reason="judge_error", detail="KeyError")))
        == "no reward: judge_error: KeyError"
    )


def test_failures_stand_below_what_was_said() -> None:
    first, last = Failure(reason="timeout", detail="over 3 s", retried=True), Failure(reason="timeout", detail="over 3 s")
    failed = make_episode(make_call({}, untrained="aborted"), output=None, verdict=None, failures=(first, last))
    assert format_transcript(failed, tokens=True).splitlines()[1:] == [
        "  assistant: (no answer: aborted)",
        "    [call 0: 2 ids fed, 3 sampled, 0 trained (aborted), stop]",
        "  failed: timeout: over 3 s, tried again",
        "  failed: timeout: over 3 s",
        "  no reward: the episode failed",
    ]


def test_a_long_text_is_shown_without_its_middle_and_says_where_all_of_it_is() -> None:
    page, details = Page(longest=30), Details(full_text_in=Path("episodes/train.jsonl"))
    lines = format_transcript(make_episode(make_call("a" * 1000 + "z" * 500)), page=page, tokens=details).splitlines()
    assert lines[1] == f"  assistant: {'a' * 20} [... 1,470 characters ...] {'z' * 10}"
    assert lines[-1] == "  the full text is in episodes/train.jsonl"
    assert "full text" not in format_transcript(make_episode(make_call("short")), page=page, tokens=details)


def test_lines_are_wrapped_at_a_terminal_below_the_text_that_they_go_on_with() -> None:
    found = format_transcript(make_episode(make_call("one two three four five six seven")), page=Page(width=30)).splitlines()
    assert found[1:3] == ["  assistant: one two three ", "      four five six seven"]


def test_a_stream_that_is_no_terminal_gets_plain_lines() -> None:
    assert Page.of(io.StringIO(), longest=7) == Page(colour=False, width=None, longest=7)


def test_calls_without_token_ids_show_each_message_once() -> None:
    nothing = {"prompt_ids": np.empty(0, np.int32), "output_ids": np.empty(0, np.int32), "logprobs": np.empty(0, np.float32)}
    question, answer = {"role": "user", "content": "one?"}, {"role": "assistant", "content": "1", "refusal": None}
    again = {"role": "user", "content": "sure?"}
    calls = (make_call("1", messages=(question,), **nothing), make_call("yes", 1, messages=(question, answer, again), **nothing))
    lines = format_transcript(make_episode(*calls), tokens=True).splitlines()
    assert lines[1:-1] == [
        "  user: one?",
        "  assistant: 1",
        "    [call 0: stop, no token ids]",
        "  user: sure?",
        "  assistant: yes",
        "    [call 1: stop, no token ids]",
    ]


def test_the_reward_can_be_left_to_who_knows_it_later() -> None:
    assert format_transcript(make_episode(make_call("yes"), task=Task(main_query="?")), with_outcome=False).splitlines() == [
        "episode train/1/t/0: ?",
        "  assistant: yes",
    ]


def make_failed(repeat):
    failure = Failure(
        reason="workflow_error",
        detail="KeyError: 'x' (agent.py:12 in solve)",
        place="agent.py:12 in solve",
        traceback="Traceback (most recent call last):\n  File agent.py\nKeyError: 'x'",
    )
    return evolve(episode(repeat, None), output=None, verdict=None, samples=(), failures=(failure,))


def test_the_traceback_of_users_code_is_shown():
    assert "      KeyError: 'x'" in format_transcript(make_failed(0)).splitlines()


def test_a_traceback_that_was_shown_is_not_shown_again():
    text = format_transcript(make_failed(1), shown={"agent.py:12 in solve": "train/1/t/0"})
    assert "Traceback (most" not in text
    assert "the traceback is shown at train/1/t/0" in text
