"""The window of `sliding_window` and `auto_context`, turn by turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.errors import ConfigError
from astuner.contract.protocols import ContextRoom, EpisodeIdentity
from astuner.contract.schema import Message
from astuner.episodes.builtin.trackers.auto_context import AutoContextTracker
from astuner.episodes.builtin.trackers.sliding_window import SlidingWindowTracker
from astuner.episodes.builtin.trackers.summaries import make_model_summariser, read_summary_prompt
from astuner.settings.config.model import Config
from astuner.settings.config.rollout import Rollout
from astuner.settings.config.structuring import structure_options
from astuner.shared.clients.llm_endpoint import NoEndpoint
from astuner_devkit.run_infos import run_info

IDENTITY = EpisodeIdentity(episode_id="e", task_id="t", repeat=0)
SYSTEM = {"role": "system", "content": "be brief"}
TASK = {"role": "user", "content": "task"}


def turn(number: int) -> list[Message]:
    return [{"role": "assistant", "content": f"a{number}"}, {"role": "user", "content": f"e{number}"}]


def make_messages(turns: int) -> list[Message]:
    return [SYSTEM, TASK, *(message for number in range(turns) for message in turn(number))]


class Asked:
    """A model that is asked for summaries."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.messages: list[list[Message]] = []
        self.max_tokens: list[int] = []

    async def __call__(self, messages: Sequence[Message], max_tokens: int) -> str:
        self.messages.append(list(messages))
        self.max_tokens.append(max_tokens)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def count(messages: Sequence[Message]) -> int:
    return len(messages)


def room(tokens: int, asked: Any = None) -> ContextRoom:
    """One token per message, whatever it says."""
    return ContextRoom(max_prompt_tokens=tokens, count_tokens=count, ask_model=asked)


def play(policy: Any, turns: int, room: ContextRoom) -> list[list[str]]:
    async def shown() -> list[list[str]]:
        return [[message["content"] for message in await policy.view(make_messages(n), room)] for n in range(turns + 1)]

    return asyncio.run(shown())


def make_tracker() -> AutoContextTracker:
    """Summarises above 7 messages, and keeps one turn."""
    options = AutoContextTracker.Options(train_sp_action=True, token_num_trigger_clip=7)
    return AutoContextTracker(options, summarise=make_model_summariser(50), summary_tokens=0)


def test_the_window_stays_until_the_conversation_no_longer_fits() -> None:
    shown = play(SlidingWindowTracker(), 4, room(8))
    assert shown[3] == ["be brief", "task", "a0", "e0", "a1", "e1", "a2", "e2"]
    assert shown[4] == ["be brief", "task\n\n[4 earlier messages are left out here.]", "a2", "e2", "a3", "e3"]


def test_the_window_moves_when_it_holds_too_many_turns() -> None:
    policy = SlidingWindowTracker(SlidingWindowTracker.Options(max_turns=2, keep_turns=1))
    assert play(policy, 3, room(100))[3] == ["be brief", "task\n\n[4 earlier messages are left out here.]", "a2", "e2"]


def test_fewer_turns_stay_where_they_do_not_fit() -> None:
    assert play(SlidingWindowTracker(), 3, room(5))[3][2:] == ["a2", "e2"]


def test_what_does_not_fit_after_all_is_shown_all_the_same() -> None:
    assert play(SlidingWindowTracker(), 2, room(3))[2][2:] == ["a1", "e1"]


def test_a_summary_takes_the_place_of_what_falls_out() -> None:
    asked = Asked("both were wrong", "all were wrong")
    policy = AutoContextTracker(
        AutoContextTracker.Options(train_sp_action=True, token_num_trigger_clip=7),
        summarise=make_model_summariser(50),
        summary_tokens=0,
    )
    shown = play(policy, 5, room(100, asked))
    assert shown[2] == ["be brief", "task", "a0", "e0", "a1", "e1"]
    assert shown[3] == ["be brief", "task\n\n[Summary of 4 earlier messages]\nboth were wrong", "a2", "e2"]
    assert shown[4] == [*shown[3], "a3", "e3"]
    assert shown[5] == ["be brief", "task\n\n[Summary of 8 earlier messages]\nall were wrong", "a4", "e4"]


def test_the_model_is_asked_for_a_summary_after_what_it_was_shown() -> None:
    asked = Asked("first", "second")
    policy = AutoContextTracker(
        AutoContextTracker.Options(train_sp_action=True, token_num_trigger_clip=7),
        summarise=make_model_summariser(50),
        summary_tokens=0,
    )
    play(policy, 5, room(100, asked))
    first, second = ([message["content"] for message in messages] for messages in asked.messages)
    assert first == ["be brief", "task", "a0", "e0", "a1", f"e1\n\n{read_summary_prompt()}"]
    assert second == [
        "be brief",
        "task\n\n[Summary of 4 earlier messages]\nfirst",
        "a2",
        "e2",
        "a3",
        f"e3\n\n{read_summary_prompt()}",
    ]
    assert asked.max_tokens == [50, 50]


def test_the_question_for_a_summary_fits_too() -> None:
    asked = Asked("short")
    window = AutoContextTracker.Options(train_sp_action=True, keep_turns=1)
    policy = AutoContextTracker(window, summarise=make_model_summariser(50), summary_tokens=0)
    asyncio.run(policy.view(make_messages(0), room(6, asked)))
    asyncio.run(policy.view(make_messages(6), room(6, asked)))
    assert [message["content"] for message in asked.messages[0]][2:] == ["a3", "e3", "a4", f"e4\n\n{read_summary_prompt()}"]


@pytest.mark.parametrize("answer", ["", "  \n", "<think>what was it", RuntimeError("the server is down")])
def test_without_a_summary_the_oldest_are_left_out_and_it_is_said(answer: Any) -> None:
    policy = AutoContextTracker(
        AutoContextTracker.Options(train_sp_action=True, token_num_trigger_clip=7),
        summarise=make_model_summariser(50),
        summary_tokens=0,
    )
    shown = play(policy, 3, room(100, Asked(answer)))
    assert shown[3] == ["be brief", "task\n\n[4 earlier messages are left out here.]", "a2", "e2"]
    assert "a summary could not be made" in policy.samples([], IDENTITY).notices["context_summary"]


def test_an_earlier_summary_outlives_a_later_failure() -> None:
    policy = AutoContextTracker(
        AutoContextTracker.Options(train_sp_action=True, token_num_trigger_clip=7),
        summarise=make_model_summariser(50),
        summary_tokens=0,
    )
    shown = play(policy, 5, room(100, Asked("all wrong", "")))
    assert shown[5][1] == "task\n\n[Summary of 4 earlier messages]\nall wrong\n\n[4 earlier messages are left out here.]"


def test_the_beginning_of_the_conversation_stays_while_there_is_room() -> None:
    examples = [SYSTEM, TASK, *turn(0), *turn(1)]
    policy = SlidingWindowTracker(SlidingWindowTracker.Options(keep_turns=1))

    async def shown(tokens: int) -> list[str]:
        await policy.view(examples, room(tokens))
        return [message["content"] for message in await policy.view([*examples, *turn(2), *turn(3)], room(tokens))]

    assert asyncio.run(shown(8)) == [
        "be brief",
        "task",
        "a0",
        "e0",
        "a1",
        "e1\n\n[2 earlier messages are left out here.]",
        "a3",
        "e3",
    ]
    assert asyncio.run(shown(4)) == ["be brief", "task\n\n[6 earlier messages are left out here.]", "a3", "e3"]


def test_more_turns_cannot_stay_than_are_shown() -> None:
    with pytest.raises(ConfigError, match="'keep_turns' must be at most max_turns"):
        structure_options(SlidingWindowTracker.Options, {"max_turns": 1, "keep_turns": 2}, key="k", locate=lambda key: None)


@pytest.mark.parametrize(
    ("tracker", "options"),
    [(AutoContextTracker, {}), (SlidingWindowTracker, {"enable_llm_memory_extraction": True})],
)
def test_an_llm_that_is_missing_is_said_when_the_tracker_is_made(
    tracker: Any, options: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DASHSCOPE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    leads = run_info(tmp_path, config=Config(rollout=Rollout(use_agentscope_protocol=False)))
    with pytest.raises(NoEndpoint, match=r"context_tracker.*set DASHSCOPE_API_KEY"):
        tracker.from_run(tracker.Options(**options), leads)
    # With a workflow nothing is summarised, and nothing is missing.
    tracker.from_run(tracker.Options(**options), evolve(leads, config=Config()))
