"""A group or an episode as Markdown, for an issue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from astuner_tools.markdown_text import code, fence

LONGEST = 60_000
"""Characters of the file: GitHub takes 65,536 in an issue."""


def write_group(run: str, answer: Mapping[str, Any]) -> str:
    """Return the Markdown of the answer about a group."""
    siblings = answer["siblings"]
    parts = [
        f"# Group {code(answer['task'])}, step {answer['step']} of {answer['split']}",
        f"Run {code(run)}; episodes: {len(siblings)}",
        "\n".join(_write_table(siblings)),
    ]
    for sibling in siblings:
        heading = f"## Repeat {sibling['repeat']}: {_describe_end(sibling)}"
        words = sibling["rationale"] or join_words(sibling["verdict_reason"], sibling["verdict_detail"])
        parts += [heading, *_write_outcome(words, [sibling["failure"]]), *_write_turns(sibling["turns_shown"])]
    return _fit(parts)


def write_episode(run: str, answer: Mapping[str, Any]) -> str:
    """Return the Markdown of the answer about an episode."""
    verdict = answer["verdict"] or {}
    words = verdict.get("rationale") or join_words(verdict.get("reason"), verdict.get("detail"))
    found = [f"* {code(one['detector'])}: {code(str(one['evidence']))}" for one in answer["findings"]]
    parts = [
        f"# Episode {code(answer['id'])}: {_describe_end(answer)}",
        f"Run {code(run)}; turns: {answer['turns']}, tokens: {answer['tokens']}, trained: {answer['trained']}",
        *_write_outcome(words, answer["failures"]),
        *(["\n".join(found)] if found else []),
        *_write_turns([call["turn"] for call in answer["calls"]]),
    ]
    return _fit(parts)


def join_words(*words: str | None) -> str:
    """Return the words that there are, joined by a colon."""
    return ": ".join(word for word in words if word)


def _describe_end(row: Mapping[str, Any]) -> str:
    if not row["completed"]:
        return f"failed ({code(row['reason'] or 'unknown')})"
    if row["reward"] is None:
        return "no reward"
    return f"reward {row['reward']:g}" + (" (success)" if row["success"] else "")


def _write_table(siblings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| repeat | reward | advantage | turns | tokens | components |"
    yield "|---|---|---|---|---|---|"
    for one in siblings:
        numbers = [_number(one["reward"]), _number(one["advantage"]), str(one["turns"]), str(one["tokens"])]
        components = ", ".join(f"{code(name)} {_number(value)}" for name, value in one["components"].items())
        yield f"| {' | '.join([str(one['repeat']), *numbers, components])} |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _write_outcome(words: str, failures: Sequence[Mapping[str, Any] | None]) -> list[str]:
    parts = [f"The judge:\n\n{fence(words)}"] if words else []
    return parts + [_write_failure(failure) for failure in failures if failure is not None]


def _write_failure(failure: Mapping[str, Any]) -> str:
    return f"It failed: {code(failure['reason'])}\n\n{fence(join_words(failure['detail'], failure['traceback']))}"


def _write_turns(turns: Sequence[Mapping[str, Any]]) -> list[str]:
    said = [(turn, message) for turn in turns for message in (*turn["messages"], turn["reply"]) if message]
    return [text for turn, message in said for text in _write_message(message, turn)]


def _write_message(message: Mapping[str, Any], turn: Mapping[str, Any]) -> Iterator[str]:
    who = message["role"] if message["role"] != "assistant" or not turn["agent"] else f"{message['role']} {code(turn['agent'])}"
    title = f"**{turn['call']} · {who}**"
    if message.get("reasoning"):
        yield f"{title} (reasoning)\n\n{fence(message['reasoning'])}"
    if message["content"] or not message["tool_calls"]:
        yield f"{title}\n\n{fence(message['content'] or '')}"
    for one in message["tool_calls"]:
        yield f"{title} calls {code(str(one['name']))}\n\n{fence(str(one['arguments'] or ''), 'json')}"


def _fit(parts: Sequence[str]) -> str:
    """Join the parts that fit into a file."""
    kept: list[str] = []
    size = 0
    for number, part in enumerate(parts):
        size += len(part) + 2
        if size > LONGEST - 200:
            kept.append(f"{len(parts) - number} further parts are left out; an export as `.html` has them.")
            break
        kept.append(part)
    return "\n\n".join(kept) + "\n"
