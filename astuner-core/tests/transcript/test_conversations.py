"""The names of an agent's conversations: main line, side calls, side conversations and branches."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.schema import Call
from astuner.contract.token_streams import prompt_length
from astuner.episodes.transcript.conversations import name_conversations
from astuner.episodes.transcript.episode_text import format_transcript
from astuner_devkit.calls import make_up_calls
from astuner_devkit.episodes import episode

TOOLS = ({"type": "function", "function": {"name": "write"}},)


def make_call(index: int, parent: int | None = None, kept: int = 0, tools: Any = (), **changes: Any) -> Call:
    fields: dict[str, Any] = {
        "index": index,
        "agent": "agent",
        "target_tag": "agent",
        "parent": parent,
        "kept": kept,
        "prompt_ids": np.array([5, 6], np.int32),
        "output_ids": np.array([7, 8], np.int32),
        "logprobs": np.zeros(2, np.float32),
        "finish_reason": "stop",
        "reply": {"role": "assistant", "content": f"answer {index}"},
        "tools": tools,
    }
    return Call(**{**fields, **changes})


def test_one_conversation_needs_no_name() -> None:
    assert name_conversations([make_call(0, tools=TOOLS), make_call(1, 0, 4)]) == {}


def test_a_title_a_main_line_and_a_sub_agent_are_told_apart() -> None:
    calls = [
        make_call(0),
        make_call(1, tools=TOOLS),
        make_call(2, tools=TOOLS),
        make_call(3, 2, 4),
        make_call(4, 1, 4),
        make_call(5, 4, 8),
    ]
    assert name_conversations(calls) == {0: "side call", 1: "main line", 2: "side conversation"}


def test_single_calls_with_tools_and_conversations_without_them_are_not_side_calls() -> None:
    calls = [make_call(0, tools=TOOLS), make_call(1, 0, 4), make_call(2, tools=TOOLS), make_call(3)]
    assert name_conversations(calls)[2] == "side conversation"
    assert name_conversations([make_call(0), make_call(1, 0, 4), make_call(2)])[2] == "side conversation"


def test_of_two_single_calls_the_one_with_tools_is_the_main_line() -> None:
    assert name_conversations([make_call(0), make_call(1, tools=TOOLS)]) == {0: "side call", 1: "main line"}


def test_a_retry_and_an_edited_history_are_branches() -> None:
    calls = [make_call(0), make_call(1, 0, 4), make_call(2, 0, 2), make_call(3, 0, 4), make_call(4, 1, 1)]
    assert name_conversations(calls) == {2: "branch of call 0", 3: "branch of call 0", 4: "branch of call 1"}


def test_conversations_of_different_agents_do_not_count_together() -> None:
    other: dict[str, Any] = {"agent": "judge", "target_tag": "judge"}
    assert name_conversations([make_call(0, tools=TOOLS), make_call(1, **other)]) == {}


def test_calls_without_token_ids_have_no_names() -> None:
    empty = np.array([], np.int32)
    assert name_conversations([make_call(n, prompt_ids=empty, output_ids=empty) for n in range(3)]) == {}


@given(st.integers(0, 2**32))
def test_every_beginning_is_named_once_an_agent_has_two_and_every_answer_goes_on_once(seed: int) -> None:
    calls = make_up_calls(Random(seed))
    names, known = name_conversations(calls), {call.index: call for call in calls}
    for agent in {call.agent for call in calls}:
        roots = [call.index for call in calls if call.agent == agent and call.parent is None]
        named = [names[root] for root in roots if root in names]
        assert len(named) == (len(roots) if len(roots) > 1 else 0)
        assert named.count("main line") == (len(roots) > 1)
    going_on = [call for call in calls if call.parent is not None and call.index not in names]
    assert len({call.parent for call in going_on}) == len(going_on)
    assert all(call.kept > prompt_length(known[call.parent or 0]) for call in going_on)


def test_the_transcript_shows_the_names() -> None:
    calls = (make_call(0), make_call(1, tools=TOOLS), make_call(2, 1, 4))
    lines = format_transcript(evolve(episode(), calls=calls, samples=()), tokens=True).splitlines()
    assert [line.strip().partition(" ids")[0] for line in lines if "[call" in line] == [
        "[call 0: side call, 2",
        "[call 1: main line, 2",
        "[call 2: continues call 1 after 4",
    ]
