"""An episode as text for people: messages, tool calls, trained tokens and the outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from astuner.contract.schema import Call, Episode, Failure, Message, Unjudged, Verdict
from astuner.contract.token_streams import stream_length
from astuner.episodes.transcript.conversations import name_conversations
from astuner.episodes.transcript.terminal_text import Page
from astuner.episodes.transcript.trained_tokens import mark_trained_tokens
from astuner.model.rendering.decoding import TextStream

if TYPE_CHECKING:
    from astuner.contract.schema import Mask

INDENT = 6
"""Indentation of a message's further lines."""


@frozen(kw_only=True)
class Details:
    """The token details of a transcript."""

    decode: Callable[[Sequence[int]], str] | None = None
    """The tokenizer's; without it a partly trained answer is not shown token by token."""
    full_text_in: Path | None = None
    """The file with the whole episode, named below a shortened transcript."""


def format_transcript(
    episode: Episode,
    *,
    tokens: bool | Details = False,
    page: Page | None = None,
    with_outcome: bool = True,
    shown: Mapping[str, str] | None = None,
) -> str:
    """Return the episode as lines of text; with `tokens`, each call shows what was fed, sampled and trained, and why not.

    On a page with colours, trained text is green and other sampled text yellow. `with_outcome=False` omits the reward, which
    may be known only later. `shown` are the places in users' code whose traceback an earlier transcript has shown, each with the
    id of its episode.
    """
    details = Details() if tokens is True else tokens or None
    return "\n".join(_Transcript(episode, page or Page(), details, shown or {}).lines(with_outcome))


def format_outcome(episode: Episode) -> str:
    """Return the judge's verdict: the reward, its parts, the rewards per agent if they differ, and the rationale."""
    verdict = episode.verdict
    if isinstance(verdict, Unjudged):
        worth = "no reward" if verdict.reward is None else f"reward {verdict.reward:g} (rollout.failure_rewards.judge_error)"
        return f"{worth}: {verdict.reason}: {verdict.detail}"
    if verdict is None:
        return "no reward" if episode.completed else "no reward: the episode failed"
    success = {True: ", success", False: ", no success", None: ""}[verdict.is_success]
    parts = [_format_values(verdict.components), _format_values(verdict.rewards or {}, "by agent: ")]
    details = "".join(f"; {part}" for part in parts if part)
    why = verdict.rationale or ""
    reasons = f"\n{why}" if "\n" in why else f" ({why})" if why else ""
    return f"reward {verdict.reward:g}{success}{details}{reasons}"


def find_judge_traceback(episode: Episode, shown: Mapping[str, str]) -> str | None:
    """Return the traceback of a judge that raised, unless another transcript of `shown` has it."""
    verdict = episode.verdict
    if not isinstance(verdict, Unjudged) or not verdict.place or shown.get(verdict.place, episode.id) != episode.id:
        return None
    return verdict.traceback or None


def find_outcome_colour(episode: Episode) -> str | None:
    """Return the kind of an outcome: good, bad, or None if success is unknown."""
    if not isinstance(episode.verdict, Verdict):
        return "bad"
    return {True: "good", False: "bad", None: None}[episode.is_success]


def _format_values(values: Mapping[str, float], lead: str = "") -> str:
    return lead + ", ".join(f"{name} {value:g}" for name, value in values.items()) if values else ""


class _Transcript:
    """One episode on one page."""

    def __init__(self, episode: Episode, page: Page, details: Details | None, shown: Mapping[str, str]) -> None:
        self._episode, self._page, self._details, self._shown = episode, page, details, shown
        self._trained = mark_trained_tokens(episode) if details is not None else {}
        self._conversations = name_conversations(episode.calls) if details is not None else {}
        self._said: dict[str, list[Message]] = {}
        """By agent, the conversation of its last call without token ids: such calls store whole conversations."""
        self._is_shortened = False

    def lines(self, with_outcome: bool) -> Iterator[str]:
        episode, page = self._episode, self._page
        yield page.block(f"episode {episode.id}: ", self._shorten(episode.task.main_query), indent=INDENT, lead_kind="title")
        for call in episode.calls:
            for message in self._new_messages(call):
                yield from self._message(message)
            yield from self._reply(call)
            for name, found in episode.findings.items():
                for finding in found:
                    if finding.call == call.index:
                        yield page.block("    abnormal: ", f"{name}: {finding.evidence}", indent=INDENT, lead_kind="bad")
        for failure in episode.failures:
            yield from self._failure(failure)
        if with_outcome:
            yield page.block("  ", format_outcome(episode), indent=INDENT, kind=find_outcome_colour(episode))
            if (trace := find_judge_traceback(episode, self._shown)) is not None:
                yield page.block(" " * INDENT, trace, indent=INDENT)
        if self._is_shortened and self._details is not None and self._details.full_text_in is not None:
            yield page.paint(f"  the full text is in {self._details.full_text_in}", "tokens")

    def _failure(self, failure: Failure) -> Iterator[str]:
        again = ", tried again" if failure.retried else ""
        known = self._shown.get(failure.place) if failure.place else None
        where = "" if known in (None, self._episode.id) else f"; the traceback is shown at {known}"
        text = f"{failure.reason}: {failure.detail}{again}{where}"
        yield self._page.block("  failed: ", text, indent=INDENT, lead_kind="bad")
        if failure.traceback and failure.place and not where:
            yield self._page.block(" " * INDENT, failure.traceback, indent=INDENT)

    def _message(self, message: Message, agent: str | None = None, kind: str | None = None) -> Iterator[str]:
        name = f" ({agent})" if agent not in (None, "agent") else ""
        speaker = f"  {message.get('role', '?')}{name}: "
        if message.get("reasoning_content"):
            thought = self._shorten(f"<think> {message['reasoning_content']}")
            yield self._page.block(speaker, thought, indent=INDENT, kind="reasoning", lead_kind="speaker")
        text = self._shorten(_text(message.get("content")))
        calls = message.get("tool_calls") or ()
        if text or not calls:
            yield self._page.block(speaker, text, indent=INDENT, kind=kind, lead_kind="speaker")
        for call in calls:
            function: Mapping[str, Any] = call.get("function", {})
            called = self._shorten(f"-> {function.get('name')}({function.get('arguments')})")
            yield self._page.block(speaker, called, indent=INDENT, kind=kind, lead_kind="speaker")

    def _reply(self, call: Call) -> Iterator[str]:
        reply = call.reply or {"role": "assistant", "content": f"(no answer: {call.untrained or call.finish_reason})"}
        if self._details is None:
            yield from self._message(reply, _name_speaker(call))
            return
        trained = self._trained[call.index]
        kind = None if not len(trained) else "trained" if trained.all() else "untrained" if not trained.any() else None
        yield from self._message(reply, _name_speaker(call), kind)
        yield self._page.paint(f"    [{self._tokens(call, trained)}]", "tokens")
        if trained.any() and not trained.all() and self._details.decode is not None:
            text = _mark_trained(call, trained, self._details.decode, self._page)
            yield self._page.block("    trained in part, [[so]]: ", text, indent=INDENT)

    def _tokens(self, call: Call, trained: Mask) -> str:
        if not stream_length(call):
            return f"call {call.index}: {call.finish_reason}, no token ids"
        named = f"{self._conversations[call.index]}, " if call.index in self._conversations else ""
        begun = f"continues call {call.parent} after {call.kept} ids, " if call.parent is not None else ""
        count, sampled = int(trained.sum()), len(call.output_ids)
        why = f" ({self._why_untrained(call)})" if count < sampled else ""
        share = "all" if count == sampled and sampled else str(count)
        fed = f"{begun}{len(call.prompt_ids)} ids fed"
        return f"call {call.index}: {named}{fed}, {sampled} sampled, {share} trained{why}, {call.finish_reason}"

    def _why_untrained(self, call: Call) -> str:
        if call.untrained is not None:
            return call.untrained
        if not self._episode.completed:
            return "failed"
        of_calls = {other.untrained for other in self._episode.calls}
        return " or ".join(reason for reason in self._episode.untrained if reason not in of_calls) or "in no sample"

    def _new_messages(self, call: Call) -> Sequence[Message]:
        if stream_length(call):
            return call.messages
        known = self._said.get(call.agent, [])
        goes_on = len(known) < len(call.messages) and all(map(_is_same_message, known, call.messages))
        self._said[call.agent] = [*call.messages, call.reply]
        return call.messages[len(known) :] if goes_on else call.messages

    def _shorten(self, text: str) -> str:
        found = self._page.shorten(text)
        self._is_shortened |= found != text
        return found


def _name_speaker(call: Call) -> str:
    """Return the agent, with its target if that has another name."""
    return call.agent if call.target_tag == call.agent else f"{call.agent}@{call.target_tag}"


def _mark_trained(call: Call, trained: Mask, decode: Callable[[Sequence[int]], str], page: Page) -> str:
    """Return the sampled text with its trained parts in double brackets."""
    text = TextStream(decode)
    borders = [0, *(np.flatnonzero(np.diff(trained)) + 1).tolist(), len(trained)]
    found = []
    for start, end in pairwise(borders):
        part = text.feed(call.output_ids[start:end].tolist()) + (text.finish() if end == len(trained) else "")
        marked = f"[[{part}]]" if trained[start] else part
        found.append(page.paint(marked, "trained" if trained[start] else "untrained"))
    return "".join(found)


def _is_same_message(one: Message, other: Message) -> bool:
    return _make_key(one) == _make_key(other)


def _make_key(message: Message) -> tuple[Any, ...]:
    calls = [call.get("function") for call in message.get("tool_calls") or ()]
    return message.get("role"), _text(message.get("content")), calls


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, Mapping))
    return json.dumps(content, ensure_ascii=False)
