"""Made-up episodes of an agent with a tool: what is found in logs of real ones, small enough to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from astuner.contract.schema import (
    Call,
    Episode,
    Failure,
    Finding,
    Group,
    Message,
    Sample,
    Split,
    Task,
    Unjudged,
    Verdict,
    WeightSpan,
    WorkflowOutput,
)

ADD: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.",
        "parameters": {"type": "object", "properties": {"a": {"type": "number"}}},
    },
}


def ask_for_tool(name: str = "add", arguments: str = '{"a": 2, "b": 2}', identity: str = "c1", **more: Any) -> Message:
    """Return an answer that calls a tool."""
    call = {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call], **more}


def make_call(index: int, messages: Sequence[Message], reply: Message, *, parent: Call | None = None, **more: Any) -> Call:
    """Return a call of two ids fed and three sampled, which continues the whole of its parent."""
    kept = 0 if parent is None else parent.kept + len(parent.prompt_ids) + len(parent.output_ids)
    fields: dict[str, Any] = {
        "index": index,
        "agent": "solver",
        "target_tag": "solver",
        "parent": None if parent is None else parent.index,
        "kept": kept,
        "prompt_ids": np.array([1, 2], np.int32),
        "output_ids": np.array([3, 4, 5], np.int32),
        "logprobs": np.full(3, -0.5, np.float32),
        "finish_reason": "stop",
        "weights": (WeightSpan(start=0, version=7),),
        "messages": tuple(messages),
        "reply": reply,
        "latency_s": 0.5,
    }
    return Call(**{**fields, **more})


def make_episode(
    repeat: int = 0,
    reward: float | None = 1.0,
    *,
    step: int = 3,
    split: Split = "train",
    task: str = "sum",
    query: str = "What is 2 + 2?",
    calls: Sequence[Call] | None = None,
) -> Episode:
    """Return an episode in which the model calls a tool and then answers; with the reward 0 a detector found something too."""
    if calls is None:
        asked = ({"role": "system", "content": "Use your tool."}, {"role": "user", "content": query})
        first = make_call(0, asked, ask_for_tool(reasoning_content="I add."), tools=(ADD,))
        answered = ({"role": "tool", "tool_call_id": "c1", "content": "4"},)
        calls = (first, make_call(1, answered, {"role": "assistant", "content": "It is 4."}, parent=first))
    identity = f"{split}/{step}/{task}/{repeat}"
    return Episode(
        id=identity,
        task=Task(main_query=query, task_id=task),
        step=step,
        repeat=repeat,
        split=split,
        output=WorkflowOutput(),
        calls=tuple(calls),
        samples=tuple(_train_last(identity, task, repeat, calls)),
        verdict=Unjudged(reason="judge_error", detail="it raised")
        if reward is None
        else Verdict(reward, reward > 0.5, components={"exact": reward}, rationale="equal" if reward else "differs"),
        findings={"nonsense": (Finding(call=1, evidence="gibberish"),) if reward == 0 else ()},
        duration_s=2.0,
    )


def make_failed_episode(repeat: int = 0, **more: Any) -> Episode:
    """Return one that took too long."""
    failure = Failure(reason="timeout", detail="it took over 60 s")
    return evolve(make_episode(repeat, **more), output=None, verdict=None, findings={}, samples=(), failures=(failure,))


def make_group(*episodes: Episode) -> Group:
    """Return the group of some siblings; by default a success, a miss and a failure."""
    found = episodes or (make_episode(0, 1.0), make_episode(1, 0.0), make_failed_episode(2))
    return Group(task=found[0].task, step=found[0].step, split=found[0].split, episodes=tuple(found))


def _train_last(identity: str, task: str, repeat: int, calls: Sequence[Call]) -> list[Sample]:
    """Return the row that trains every answer of a conversation that was never interrupted."""
    if not calls or any(call.index and call.parent != call.index - 1 for call in calls):
        return []
    parts = [part for call in calls for part in (call.prompt_ids, call.output_ids)]
    mask = [trained for call in calls for trained in [False] * len(call.prompt_ids) + [True] * len(call.output_ids)]
    logprobs = [one for call in calls for one in [0.0] * len(call.prompt_ids) + list(call.logprobs)]
    return [
        Sample(
            episode_id=identity,
            task_id=task,
            repeat=repeat,
            agent=calls[-1].agent,
            ids=np.concatenate(parts),
            mask=np.array(mask),
            logprobs=np.array(logprobs, np.float32),
            calls=tuple(call.index for call in calls),
        )
    ]
