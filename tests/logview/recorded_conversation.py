"""Made-up episodes whose calls are token-exact: what was fed and sampled is the text that the messages show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from astuner.contract.protocols import EpisodeIdentity
from astuner.contract.schema import Call, Episode, Failure, Finding, Task, Unjudged, Verdict, WeightSpan, WorkflowOutput
from astuner.contract.token_streams import prompt_length, stream_length
from astuner.episodes.builtin.trackers.timeline import TimelineTracker

END = "<|im_end|>"


@cache
def tokenizer() -> Any:
    """The tiny tokenizer of `astuner_devkit`, without the parts that need transformers."""
    from astuner_devkit.tokenizer import tiny_tokenizer

    return tiny_tokenizer().backend_tokenizer


def encode(text: str) -> np.ndarray:
    ids = tokenizer().encode(text.encode("utf-8", "replace").decode(), add_special_tokens=False).ids
    return np.asarray(ids, np.int32)


def tool_call(name: str, arguments: str, identity: str = "call_1") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


class Conversation:
    """Records calls as the gateway does."""

    def __init__(self, seed: int, version: int = 0) -> None:
        self.calls: list[Call] = []
        self._random = np.random.default_rng(seed)
        self._version = version

    def ask(
        self,
        messages: Sequence[Mapping[str, Any]],
        reply: Mapping[str, Any],
        *,
        agent: str = "solver",
        after: int | None = None,
        again: bool = False,
        untrained: str | None = None,
        finish_reason: str = "stop",
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> int:
        """Record a call and return its index; `after` is the call that it continues, `again` asks that call's question again."""
        parent = None if after is None else self.calls[after]
        kept = 0 if parent is None else prompt_length(parent) if again else stream_length(parent)
        fed = "" if again else _render_request(messages, tools, continues=parent is not None)
        sampled = encode(_render_reply(reply) + (END if finish_reason == "stop" else ""))
        call = Call(
            index=len(self.calls),
            agent=agent,
            target_tag=agent,
            parent=after,
            kept=kept,
            prompt_ids=encode(fed),
            output_ids=sampled,
            logprobs=-self._random.gamma(0.4, 0.8, len(sampled)).astype(np.float32),
            finish_reason=finish_reason,
            weights=(WeightSpan(start=0, version=self._version),),
            untrained=untrained,
            messages=tuple(messages),
            reply=dict(reply),
            tools=tuple(tools),
            latency_s=0.5,
        )
        self.calls.append(call)
        return call.index


def make_episode(
    conversation: Conversation,
    task: Task,
    *,
    step: int,
    repeat: int,
    split: str = "train",
    verdict: Verdict | Unjudged | None = None,
    output: WorkflowOutput | None = None,
    failures: Sequence[Failure] = (),
    findings: Mapping[str, tuple[Finding, ...]] | None = None,
    observations: Mapping[str, Any] | None = None,
) -> Episode:
    identity = f"{split}/{step}/{task.task_id}/{repeat}"
    calls = tuple(conversation.calls)
    tracked = TimelineTracker().samples(calls, EpisodeIdentity(episode_id=identity, task_id=task.task_id, repeat=repeat))
    return Episode(
        id=identity,
        task=task,
        step=step,
        repeat=repeat,
        split=split,  # type: ignore[arg-type]
        output=output,
        calls=calls,
        samples=tuple(tracked.samples),
        untrained=dict(tracked.untrained),
        failures=tuple(failures),
        verdict=verdict,
        findings=dict(findings or {}),
        observations=dict(observations or {}),
        duration_s=1.5 + repeat,
    )


def _render_request(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], *, continues: bool) -> str:
    shown = [f"<|im_start|>{message['role']}\n{message.get('content') or ''}{END}\n" for message in messages]
    listed = f"<|im_start|>system\nTools: {[tool['function']['name'] for tool in tools]}{END}\n" if tools else ""
    return ("\n" if continues else "") + listed + "".join(shown) + "<|im_start|>assistant\n"


def _render_reply(reply: Mapping[str, Any]) -> str:
    thought = reply.get("reasoning_content")
    called = "".join(
        f"\n<tool_call>\n{call['function']['name']}({call['function']['arguments']})\n</tool_call>"
        for call in reply.get("tool_calls") or ()
    )
    return (f"<think>\n{thought}\n</think>\n\n" if thought else "") + str(reply.get("content") or "") + called
