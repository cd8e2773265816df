"""An episode as a trace: `invoke_agent` with a `chat` for each model call and an `execute_tool` for each tool that was run.

Names follow the GenAI semantic conventions of OpenTelemetry; what those do not know is called `astuner.…`. No name is the
beginning of another (`astuner.task`, `astuner.task.id`): servers that nest attributes keep only one of the two.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from astuner.contract.schema import Call, Episode, Message
from astuner.contract.token_streams import conversation, prompt_length, stream_length
from astuner.episodes.transcript.trained_tokens import mark_trained_tokens
from astuner_loggers.otel.drafts import EventDraft, Plain, SpanDraft, TraceDraft
from astuner_loggers.otel.messages import Document, MessageConverter, read_text
from astuner_loggers.otel.outcome import describe_failure, list_details, list_evaluations, list_findings, list_outcome
from astuner_loggers.otel.selection import ChosenEpisode
from astuner_loggers.otel.timeline import place_calls
from astuner_loggers.otel.tool_runs import ToolRun, find_tool_runs

PROVIDER = "astuner"
"""`gen_ai.provider.name`, which says who made the telemetry."""
_FINISH_REASONS = {"stop": "stop", "length": "length", "context": "length", "abort": "error"}
"""Of the conventions, by our own."""


@frozen(kw_only=True)
class TraceFacts:
    """What all traces of a run have in common."""

    run_id: str
    model: str
    """The name of the model that is tuned."""


def draft_trace(chosen: ChosenEpisode, facts: TraceFacts, clean: Callable[[str], str], most_characters: int) -> TraceDraft:
    """Return the trace of an episode.

    Each `chat` has its whole conversation. If together these have over `most_characters`, one that continues another has only
    the messages that are new.
    """
    return _Drafting(chosen, facts, clean, most_characters).draft()


def list_agents(episode: Episode) -> list[str]:
    """Return the names of an episode's agents, in order of appearance."""
    return list(dict.fromkeys(call.agent for call in episode.calls)) or ["agent"]


class _Drafting:
    """One episode on its way to a trace."""

    def __init__(self, chosen: ChosenEpisode, facts: TraceFacts, clean: Callable[[str], str], most_characters: int) -> None:
        self._chosen, self._episode, self._facts, self._clean = chosen, chosen.episode, facts, clean
        self._messages = MessageConverter(clean)
        self._trained = mark_trained_tokens(self._episode)
        calls = self._episode.calls
        self._placed = dict(
            zip(
                [call.index for call in calls],
                place_calls([call.latency_s for call in calls], self._episode.duration_s),
                strict=True,
            )
        )
        self._is_whole = self._count_characters() <= most_characters

    def draft(self) -> TraceDraft:
        chats = [self._chat(call) for call in self._episode.calls]
        tools = [self._tool(run) for run in find_tool_runs(self._episode.calls)]
        duration = max([self._episode.duration_s, *(span.end_s for span in chats)])
        return TraceDraft(episode_id=self._episode.id, duration_s=duration, spans=(*chats, *tools, self._root(duration)))

    def _root(self, duration: float) -> SpanDraft:
        episode = self._episode
        agents = ", ".join(list_agents(episode))
        first, last = (episode.calls[0], episode.calls[-1]) if episode.calls else (None, None)
        asked = self._read_request(first) if first else [{"role": "user", "content": episode.task.main_query}]
        documents: dict[str, Document] = {"gen_ai.input.messages": self._messages.convert_all(asked)}
        if last is not None and last.reply:
            reply = self._messages.convert_reply(last.reply, _name_finish_reason(last))
            documents["gen_ai.output.messages"] = [reply]
        attributes = {
            **self._common("invoke_agent", agents),
            **self._place(),
            **list_outcome(episode, sum(int(mask.sum()) for mask in self._trained.values())),
            **self._shown_in_lists(last),
        }
        return SpanDraft(
            key="",
            name=self._clean(f"invoke_agent {agents}"),
            start_s=0.0,
            end_s=duration,
            attributes=self._clean_plain(attributes),
            documents={**documents, **self._messages.clean_tree(list_details(episode))},
            events=tuple(self._clean_event(event) for event in list_evaluations(episode)),
            error=None if episode.completed else self._clean(describe_failure(episode)),
        )

    def _chat(self, call: Call) -> SpanDraft:
        start, end = self._placed[call.index]
        attributes: dict[str, Plain] = {
            **self._common("chat", call.agent),
            "gen_ai.request.temperature": float(call.temperature),
            "gen_ai.response.finish_reasons": [_name_finish_reason(call)],
            "astuner.call": call.index,
            "astuner.finish_reason": call.finish_reason,
            "astuner.target": call.target_tag,
        }
        if stream_length(call):
            attributes |= {
                "gen_ai.usage.input_tokens": prompt_length(call),
                "gen_ai.usage.output_tokens": len(call.output_ids),
                "astuner.trained_tokens": int(self._trained[call.index].sum()),
            }
        if call.untrained is not None:
            attributes["astuner.untrained"] = call.untrained
        if call.weights:
            attributes["astuner.weight_version"] = call.weights[-1].version
        if call.parent is not None:
            attributes["astuner.continues_call"] = call.parent
        if not self._is_whole and call.parent is not None:
            attributes["astuner.shortened"] = f"the messages of call {call.parent} are left out: the trace would be too large"
        documents: dict[str, Document] = {"gen_ai.input.messages": self._messages.convert_all(self._read_request(call))}
        if call.reply:
            documents["gen_ai.output.messages"] = [self._messages.convert_reply(call.reply, _name_finish_reason(call))]
        if call.tools:
            documents["gen_ai.tool.definitions"] = [self._messages.clean_tree(_define_tool(tool)) for tool in call.tools]
        if found := list_findings(self._episode, call.index):
            documents["astuner.findings"] = self._messages.clean_tree(found)
        return SpanDraft(
            key=f"call {call.index}",
            name=f"chat {self._facts.model}",
            start_s=start,
            end_s=end,
            is_client=True,
            attributes=self._clean_plain(attributes),
            documents=documents,
            error="aborted" if call.finish_reason == "abort" else None,
        )

    def _tool(self, run: ToolRun) -> SpanDraft:
        _, asked_at = self._placed[run.call.index]
        attributes: dict[str, Plain] = {
            **self._common("execute_tool", run.call.agent),
            "gen_ai.tool.name": run.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": run.id,
            "astuner.call": run.call.index,
        }
        return SpanDraft(
            key=f"call {run.call.index} tool {run.number}",
            name=self._clean(f"execute_tool {run.name}"),
            # How long it took is not recorded.
            start_s=asked_at,
            end_s=asked_at,
            attributes=self._clean_plain(attributes),
            documents={
                "gen_ai.tool.call.arguments": self._messages.read_arguments(run.arguments),
                "gen_ai.tool.call.result": self._clean(read_text(run.answer)),
            },
        )

    def _common(self, operation: str, agent: str) -> dict[str, Plain]:
        return {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.conversation.id": self._facts.run_id,
            "gen_ai.request.model": self._facts.model,
            "gen_ai.agent.name": agent,
        }

    def _place(self) -> dict[str, Plain]:
        episode = self._episode
        return {
            "astuner.episode": episode.id,
            "astuner.step": episode.step,
            "astuner.split": episode.split,
            "astuner.group": self._chosen.group,
            "astuner.repeat": episode.repeat,
            "astuner.task.id": episode.task.task_id,
        }

    def _shown_in_lists(self, last: Call | None) -> dict[str, Plain]:
        # Lists of traces have a column for the input and one for the output, which Phoenix reads from these.
        reply = read_text(last.reply) if last is not None else ""
        return {"input.value": self._episode.task.main_query, **({"output.value": reply} if reply else {})}

    def _read_request(self, call: Call) -> Sequence[Message]:
        return conversation(self._episode.calls, call.index) if self._is_whole else call.messages

    def _count_characters(self) -> int:
        known: dict[int, int] = {}
        total = 0
        for call in self._episode.calls:
            for message in conversation(self._episode.calls, call.index):
                if id(message) not in known:
                    known[id(message)] = len(json.dumps(message, default=str, ensure_ascii=False))
                total += known[id(message)]
        return total

    def _clean_event(self, event: EventDraft) -> EventDraft:
        return evolve(event, attributes=self._clean_plain(event.attributes))

    def _clean_plain(self, attributes: Mapping[str, Plain]) -> dict[str, Plain]:
        found: dict[str, Plain] = {}
        for name, value in attributes.items():
            if isinstance(value, str):
                found[name] = self._clean(value)
            elif not isinstance(value, float) or math.isfinite(value):
                found[name] = value
        return found


def _name_finish_reason(call: Call) -> str:
    reason = _FINISH_REASONS.get(call.finish_reason, call.finish_reason)
    return "tool_call" if reason == "stop" and call.reply.get("tool_calls") else reason


def _define_tool(tool: Mapping[str, Any]) -> dict[str, Document]:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return {"name": str(tool.get("type", "unknown")), **tool}
    return {"type": str(tool.get("type", "function")), **function}
