"""What a model is shown of a conversation that grows: properties of every tracker that manages one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astuner.contract.protocols import ContextPolicy, ContextRoom, TrackerTraits, read_traits
from astuner.contract.schema import Message
from astuner.episodes.builtin.trackers.auto_context import AutoContextTracker
from astuner.episodes.builtin.trackers.linear import LinearTracker
from astuner.episodes.builtin.trackers.linear_think import LinearThinkTracker
from astuner.episodes.builtin.trackers.sliding_window import SlidingWindowTracker
from astuner.episodes.builtin.trackers.timeline import TimelineTracker

ROOM = 60


def count(messages: Sequence[Message]) -> int:
    return sum(1 + len(str(message.get("content") or "").split()) for message in messages)


async def count_later(messages: Sequence[Message]) -> int:
    return count(messages)


async def summarise(messages: Sequence[Message], room: ContextRoom) -> str:
    return f"so far {len(messages)}"


async def never(messages: Sequence[Message], max_tokens: int) -> str:
    raise AssertionError("nobody asked for this")


def room(tokens: int = ROOM) -> ContextRoom:
    return ContextRoom(max_prompt_tokens=tokens, count_tokens=count_later, ask_model=never)


POLICIES: dict[str, Callable[[], ContextPolicy]] = {
    "sliding_window": SlidingWindowTracker,
    "sliding_window, few turns": lambda: SlidingWindowTracker(SlidingWindowTracker.Options(max_turns=3, keep_turns=1)),
    "sliding_window, memory": lambda: SlidingWindowTracker(summarise=summarise, summary_tokens=5),
    "auto_context": lambda: AutoContextTracker(summarise=summarise, summary_tokens=5),
    "auto_context, early": lambda: AutoContextTracker(
        AutoContextTracker.Options(token_num_trigger_clip=30, keep_turns=2), summarise=summarise, summary_tokens=5
    ),
}


def words(random: Random, most: int) -> str:
    return " ".join(f"w{random.randrange(100)}" for _ in range(random.randint(1, most)))


def grown(random: Random, late_results: bool = False) -> list[list[Message]]:
    """Return a conversation as it is before each turn of the model; results of tools may come a turn too late."""
    said: list[Message] = [{"role": "system", "content": words(random, 8)}] if random.random() < 0.7 else []
    said += [{"role": "user", "content": f"task {words(random, 8)}"}]
    if random.random() < 0.2:
        said += [{"role": "assistant", "content": "an example"}, {"role": "user", "content": words(random, 40)}]
    seen = [list(said)]
    pending: list[str] = []
    for turn in range(random.randint(1, 10)):
        called = [f"{turn}/{number}" for number in range(random.randint(0, 2))]
        calls = [{"id": name, "function": {"name": "look", "arguments": "{}"}} for name in called]
        said.append(
            {"role": "assistant", "content": f"answer {turn} {words(random, 6)}", **({"tool_calls": calls} if calls else {})}
        )
        late = called if late_results and random.random() < 0.3 else []
        said += [result(random, name) for name in (*pending, *called) if name not in late]
        pending = late
        if random.random() < 0.1:
            said.append({"role": "system", "content": "mind the time"})
        if not called or random.random() < 0.3:
            said.append({"role": "user", "content": words(random, 12)})
        seen.append(list(said))
    return seen


def result(random: Random, name: str) -> Message:
    return {"role": "tool", "tool_call_id": name, "content": words(random, 8)}


conversations = st.integers(0, 2**32).map(lambda seed: grown(Random(seed)))
disordered = st.integers(0, 2**32).map(lambda seed: grown(Random(seed), late_results=True))


def views(make: Callable[[], ContextPolicy], seen: Sequence[Sequence[Message]]) -> list[list[Message]]:
    async def play() -> list[list[Message]]:
        policy = make()
        return [list(await policy.view(messages, room())) for messages in seen]

    return asyncio.run(play())


def notes(shown: Sequence[Message]) -> list[str]:
    return [note for message in shown for note in message["content"].split("\n\n[")[1:]]


def core_head(messages: Sequence[Message]) -> int:
    return next(place for place, message in enumerate(messages) if message["role"] == "user") + 1


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@settings(max_examples=20)
@given(seen=conversations)
def test_a_view_fits_where_one_turn_beside_the_task_does(make: Callable[[], ContextPolicy], seen: Any) -> None:
    for shown in views(make, seen):
        turns = sum(message["role"] == "assistant" for message in shown)
        assert count(shown) <= ROOM or turns <= 1


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@settings(max_examples=20)
@given(seen=conversations)
def test_system_messages_the_task_and_the_last_message_stay(make: Callable[[], ContextPolicy], seen: Any) -> None:
    for messages, shown in zip(seen, views(make, seen), strict=True):
        assert [m for m in shown if m["role"] == "system"] == [m for m in messages if m["role"] == "system"]
        place = core_head(messages) - 1
        assert shown[place]["content"].startswith(messages[place]["content"])
        assert shown[-1]["content"].startswith(messages[-1]["content"])


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@settings(max_examples=20)
@given(seen=disordered)
def test_tool_calls_and_their_results_stay_together(make: Callable[[], ContextPolicy], seen: Any) -> None:
    for messages, shown in zip(seen, views(make, seen), strict=True):
        called = {call["id"] for message in shown for call in message.get("tool_calls", ())}
        answered, given = ({m["tool_call_id"] for m in some if m["role"] == "tool"} for some in (shown, messages))
        assert answered == called & given


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@settings(max_examples=20)
@given(seen=conversations)
def test_what_is_shown_was_said_in_that_order(make: Callable[[], ContextPolicy], seen: Any) -> None:
    for messages, shown in zip(seen, views(make, seen), strict=True):
        rest = iter(messages)
        beginnings = [(m["role"], m["content"].split("\n\n[")[0]) for m in shown]
        assert all(any((m["role"], m["content"]) == one for m in rest) for one in beginnings)


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@settings(max_examples=15)
@given(seen=conversations)
def test_the_same_conversation_is_shown_in_the_same_way(make: Callable[[], ContextPolicy], seen: Any) -> None:
    assert views(make, seen) == views(make, seen)


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@settings(max_examples=20)
@given(seen=conversations)
def test_a_view_only_grows_until_its_window_moves(make: Callable[[], ContextPolicy], seen: Any) -> None:
    for before, after in pairwise(views(make, seen)):
        assert after[: len(before)] == before or notes(after) != notes(before)


def test_timeline_and_linear_show_everything() -> None:
    for tracker in (TimelineTracker(), LinearTracker()):
        assert not read_traits(tracker, TrackerTraits).manages_context


@pytest.mark.parametrize("policy", [SlidingWindowTracker(), AutoContextTracker(), LinearThinkTracker()])
def test_trackers_that_manage_the_conversation_are_policies(policy: Any) -> None:
    assert read_traits(policy, TrackerTraits).manages_context
