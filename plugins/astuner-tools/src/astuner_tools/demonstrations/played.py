"""Demonstrations from played episodes: exactly what was prompted, trained only where the model sampled it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from astuner.contract.errors import UsageError
from astuner.contract.schema import Call, Episode, Message, Split
from astuner.contract.token_streams import conversation
from astuner.model.gateway.recording.messages import encode_meaning
from astuner.model.rendering.errors import ApiError
from astuner.runs.inspection.run_search import open_run
from astuner.runs.inspection.selection import Selection
from astuner.runs.store.atomic import write_text
from astuner_tools.demonstrations.reading import Demonstration, RowError, check_answer, check_row

LEARNABLE = (None, "no_token_ids", "no_logprobs", "constrained")
"""Reasons why a call's own tokens are not trained that do not concern its text: an answer of an API, or one that was held to a
grammar, can be learnt."""
KEPT = ("role", "content", "reasoning_content", "tool_calls", "name", "tool_call_id")
"""The fields of a message that a model is shown."""

Row = dict[str, Any]


@define(eq=False)
class _Line:
    """A conversation that only grew: each call was prompted with all of it, and its answer was added."""

    agent: str
    tools: tuple[Mapping[str, Any], ...]
    messages: list[Message]
    trained: set[int]
    """Places of the answers that were sampled here, and may be learnt."""

    def grows_to(self, prompt: tuple[Message, ...], call: Call, tools: tuple[Mapping[str, Any], ...]) -> bool:
        """Whether a call was prompted with all of this, and more."""
        if (self.agent, self.tools) != (call.agent, tools) or len(self.messages) >= len(prompt):
            return False
        return all(encode_meaning(one) == encode_meaning(other) for one, other in zip(self.messages, prompt, strict=False))


@define(eq=False)
class PlayedDemonstrations:
    """The demonstrations of some episodes, and how many came of what."""

    rows: list[Row] = field(factory=list)
    """In the form of a file of demonstrations, with `episode`, `task` and `reward` as further columns."""
    episodes: int = 0
    repeated: int = 0
    """Conversations that were left out since an earlier one is equal."""
    empty: int = 0
    """Episodes that failed, or in which nothing can be learnt."""
    _known: set[str] = field(factory=set, init=False)

    def add(self, episode: Episode) -> None:
        """Add the conversations of an episode that are not known yet."""
        self.episodes += 1
        made = list(make_rows(episode)) if episode.completed else []
        self.empty += not made
        for row in made:
            key = _make_key(row)
            if key in self._known:
                self.repeated += 1
                continue
            self._known.add(key)
            self.rows.append({**row, "episode": episode.id, "task": episode.task.task_id, "reward": episode.reward})

    def describe(self) -> str:
        """Return the numbers in a line."""
        tasks = len({row["task"] for row in self.rows})
        parts = [f"{self.repeated} equal to earlier ones are left out"] if self.repeated else []
        parts += [f"{self.empty} episodes failed or have no answer to learn"] if self.empty else []
        more = f" ({'; '.join(parts)})" if parts else ""
        return f"{len(self.rows)} demonstrations of {tasks} tasks from {self.episodes} episodes{more}"


@frozen(kw_only=True)
class EpisodeChoice:
    """Which episodes of which run a warm start learns from."""

    run: str
    """A run directory, or the name of one in `launcher_record`."""
    min_reward: float
    """The least reward of an episode."""


def make_rows(episode: Episode) -> Iterator[Row]:
    """Yield the conversations of an episode.

    One that only grew is a single row. Where an agent has rewritten its history, or begun another conversation, a further row
    begins: the messages before its answer are exactly those of the prompt, and answers among them have `"train": false`, so each
    sampled answer is trained once, under the prompt it was sampled under.
    """
    lines: list[_Line] = []
    for call in episode.calls:
        if not call.reply:
            continue
        prompt, tools = conversation(episode.calls, call.index), _find_tools(episode.calls, call)
        line = next((one for one in reversed(lines) if one.grows_to(prompt, call, tools)), None)
        if line is None:
            line = _Line(call.agent, tools, [], set())
            lines.append(line)
        line.messages += prompt[len(line.messages) :]
        # An answer that the agent had begun itself cannot be written as a message of its own.
        if prompt[-1]["role"] != "assistant" and _is_learnable(call, tools):
            line.trained.add(len(line.messages))
        line.messages.append(call.reply)
    for line in lines:
        if line.trained:
            last = max(line.trained) + 1
            messages = [_write(one, place in line.trained) for place, one in enumerate(line.messages[:last])]
            yield {"messages": messages, **({"tools": [dict(tool) for tool in line.tools]} if line.tools else {})}


def collect_demonstrations(episodes: Iterable[Episode]) -> PlayedDemonstrations:
    """Return the demonstrations of episodes, each conversation once."""
    found = PlayedDemonstrations()
    for episode in episodes:
        found.add(episode)
    return found


def write_demonstrations(path: Path, episodes: Iterable[Episode]) -> Iterator[str]:
    """Write a file of demonstrations, and yield what to say of it; raises `UsageError` if there is none, or the file exists."""
    if path.exists():
        raise UsageError(f"--demos {path}: exists; name another file")
    found = collect_demonstrations(episodes)
    if not found.rows:
        raise UsageError(f"--demos: none of the {found.episodes} selected episodes has an answer to learn; select others")
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found.rows), private=False)
    yield f"{path}: {found.describe()}"


def read_episodes(choice: EpisodeChoice) -> tuple[list[Demonstration], list[str]]:
    """Return the demonstrations of a run's training episodes with enough reward, and what is to be said of them.

    Raises `UsageError` if there are none.
    """
    notes: list[str] = []
    run = open_run(choice.run, notes.append)
    split: Split = "train"
    if not run.has_episodes(split):
        only = (
            "it only played validation tasks, and what is trained must not be measured" if run.has_episodes("validation") else ""
        )
        raise UsageError(f"--from-run {choice.run}: it has no training episodes{only and ': '}{only}. Play training tasks first")
    index = run.index_episodes(split)
    found = collect_demonstrations(run.select(index, Selection(min_reward=choice.min_reward)))
    if not found.rows:
        rewards = [one.reward for one in index if one.reward is not None]
        best = f"the highest is {max(rewards):g}" if rewards else "none has a reward"
        raise UsageError(
            f"--from-run {choice.run}: none of its {len(index)} training episodes with a reward of {choice.min_reward:g} or more "
            f"has an answer to learn; {best}. Lower --min-reward, or play more episodes"
        )
    made = []
    for number, row in enumerate(found.rows, 1):
        messages, tools, untrained = check_row(row)
        made.append(
            Demonstration(file=index.path, line=number, messages=messages, tools=tools, untrained=untrained, name=row["episode"])
        )
    return made, [f"{choice.run}: {found.describe()}", *notes]


def _make_key(row: Row) -> str:
    """Return a text that two conversations share if they are equal but for the ids of their calls, which are drawn at random."""
    text = json.dumps([row["messages"], row.get("tools")], ensure_ascii=False, sort_keys=True)
    calls = (call for message in row["messages"] for call in message.get("tool_calls") or ())
    for number, call in enumerate(calls):
        if call.get("id"):
            text = text.replace(json.dumps(call["id"], ensure_ascii=False), f"call {number}")
    return text


def _find_tools(calls: tuple[Call, ...], call: Call) -> tuple[Mapping[str, Any], ...]:
    """Return the tools of a call: the one that began its conversation has them."""
    known = {one.index: one for one in calls}
    while call.parent is not None:
        call = known[call.parent]
    return call.tools


def _is_learnable(call: Call, tools: tuple[Mapping[str, Any], ...]) -> bool:
    """Whether an answer is whole, of a trained agent, and calls what there is."""
    if call.untrained not in LEARNABLE or call.finish_reason != "stop":
        return False
    try:
        check_answer({"content": None, **call.reply}, "", [tool["function"]["name"] for tool in tools])
    except (RowError, ApiError, KeyError, TypeError):
        return False
    return True


def _write(message: Message, trained: bool) -> Row:
    row = {key: message[key] for key in KEPT if message.get(key) is not None or key == "content"}
    return row if trained or message["role"] != "assistant" else {**row, "train": False}
