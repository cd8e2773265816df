"""An episode as text that a person reads: what was said, what was called, what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from astuner.schema import Call, Episode, Message, Unjudged, Verdict


def transcript(episode: Episode, *, tokens: bool = False) -> str:
    """Return the episode as lines of text; with `tokens`, each call says how many ids were fed and sampled, and why it ended."""
    return "\n".join(_lines(episode, tokens))


def _lines(episode: Episode, tokens: bool) -> Iterator[str]:
    yield f"episode {episode.id}: {episode.task.main_query}"
    for call in episode.calls:
        for message in call.messages:
            yield from _message(message)
        yield from _message(call.reply, agent=call.agent)
        if tokens:
            yield f"    [{_tokens(call)}]"
        for name, found in episode.findings.items():
            yield from (f"    abnormal: {name}: {finding.evidence}" for finding in found if finding.call == call.index)
    for failure in episode.failures:
        again = ", tried again" if failure.retried else ""
        yield f"  failed: {failure.reason}: {failure.detail}{again}"
    yield f"  {outcome(episode)}"


def outcome(episode: Episode) -> str:
    """Return what the judge found, in one line."""
    if isinstance(episode.verdict, Verdict):
        success = {True: ", success", False: ", no success", None: ""}[episode.verdict.is_success]
        why = f" ({episode.verdict.rationale})" if episode.verdict.rationale else ""
        return f"reward {episode.verdict.reward:g}{success}{why}"
    if isinstance(episode.verdict, Unjudged):
        return f"no reward: {episode.verdict.reason}: {episode.verdict.detail}"
    return "no reward" if episode.completed else "no reward: the episode failed"


def _message(message: Message, agent: str | None = None) -> Iterator[str]:
    name = f" ({agent})" if agent not in (None, "agent") else ""
    speaker = f"  {message.get('role', '?')}{name}: "
    if message.get("reasoning_content"):
        yield f"{speaker}<think> {_one_line(message['reasoning_content'])}"
    text = _text(message.get("content"))
    calls = message.get("tool_calls") or ()
    if text or not calls:
        yield f"{speaker}{_one_line(text)}"
    for call in calls:
        function: Mapping[str, Any] = call.get("function", {})
        yield f"{speaker}-> {function.get('name')}({function.get('arguments')})"


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, Mapping))
    return json.dumps(content, ensure_ascii=False)


def _one_line(text: str) -> str:
    return text.replace("\n", "\n      ")


def _tokens(call: Call) -> str:
    kept = f"continues call {call.parent} after {call.kept} ids, " if call.parent is not None else ""
    fate = f", untrained: {call.untrained}" if call.untrained else ""
    return f"call {call.index}: {kept}{len(call.prompt_ids)} ids fed, {len(call.output_ids)} sampled, {call.finish_reason}{fate}"
