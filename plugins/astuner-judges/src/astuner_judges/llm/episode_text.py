"""The parts of an episode that the LLM sees: the answer, and on request the conversation, inside fences."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from attrs import evolve

from astuner.contract.errors import DataError
from astuner.contract.schema import Episode, Task, Unjudged
from astuner.model.reasoning import split_thought
from astuner.shared.clients import fence
from astuner_judges.asking import explain_missing_answer
from astuner_judges.llm.options import LlmJudgeOptions

_STARTS_MESSAGE = re.compile(r"  \S")
"""Further lines of a message are indented by more."""


def describe_work(episode: Episode, options: LlmJudgeOptions) -> str | Unjudged | None:
    """Return a completed episode as text for a prompt, the same for the same work; None if there is nothing to judge.

    An empty answer is nothing to judge. If the output lacks its key altogether, the key is wrong and the episode is not judged.
    """
    answer = _answer(episode, options.answer_key)
    if isinstance(answer, Unjudged):
        return answer
    parts = [] if answer is None else [fence(shorten(answer, options.answer_chars), "answer")]
    if options.transcript_chars is not None:
        parts.append(fence(shorten(_conversation(episode), options.transcript_chars), "transcript"))
    return "\n".join(parts) or None


def describe_conversation(episode: Episode, options: LlmJudgeOptions) -> str | None:
    """Return a completed episode's whole conversation, with the output's answer if that is not in it; None if it is empty."""
    from astuner.episodes.transcript.episode_text import INDENT

    metadata = episode.output.metadata if episode.output is not None else {}
    answer = _text(metadata.get(options.answer_key)) if options.answer_key is not None else None
    conversation = _conversation(episode)
    is_shown = answer is None or _flatten(answer) in _flatten(conversation)
    if not is_shown:
        # Indented as further lines of a message are, so that none looks like a message of its own.
        lines = "\n".join(str(answer).splitlines()).replace("\n", "\n" + " " * INDENT)
        conversation = f"{conversation}\n  final answer: {lines}".lstrip("\n")
    return conversation or None


def split_beginning(conversations: Sequence[str]) -> tuple[str, list[str]]:
    """Return the messages that all conversations begin with, and the rest of each, which has a message or more."""
    lines = [text.split("\n") for text in conversations]
    common = sum(1 for _ in takewhile(lambda those: len({*those}) == 1, zip(*lines, strict=False)))
    while common and not all(len(some) > common and _STARTS_MESSAGE.match(some[common]) for some in lines):
        common -= 1
    return "\n".join(lines[0][:common]), ["\n".join(some[common:]) for some in lines]


def describe_task(task: Task, options: LlmJudgeOptions) -> Mapping[str, str]:
    """Return the slots `query` and `reference`, which may be empty."""
    said = (f"{message.get('role', '?')}: {_content(message.get('content'))}" for message in task.messages)
    query = "\n\n".join(said) if task.init_messages else task.main_query
    if not query.strip():
        raise DataError(f"judge 'llm': task '{task.task_id}' has neither a main_query nor init_messages to judge answers by")
    reference = None if options.reference_key is None else _text(task.metadata.get(options.reference_key))
    return {"query": fence(query, "task"), "reference": "" if reference is None else fence(reference, "reference")}


def _answer(episode: Episode, key: str | None) -> str | Unjudged | None:
    if key is None:
        return _text(_omit_thought(_content(episode.calls[-1].reply.get("content")))) if episode.calls else None
    metadata = episode.output.metadata if episode.output is not None else {}
    if key not in metadata:
        return explain_missing_answer(key, metadata, option="answer_key (null takes the model's last reply)")
    return _text(_omit_thought(metadata[key]))


def _omit_thought(answer: Any) -> Any:
    return split_thought(answer)[1] if isinstance(answer, str) else answer


def _conversation(episode: Episode) -> str:
    from astuner.episodes.transcript.episode_text import format_transcript

    # Without the episode's own names, so that the same work is the same question.
    nameless = evolve(episode, id="", task=evolve(episode.task, main_query=""), failures=(), findings={})
    return format_transcript(nameless, with_outcome=False).partition("\n")[2]


def _flatten(text: str) -> str:
    return " ".join(text.split())


def _text(value: Any) -> str | None:
    """Return an answer as text; None if there is none."""
    if value is None or isinstance(value, str):
        return value if value and value.strip() else None
    return json.dumps(value, ensure_ascii=False)


def _content(content: Any) -> str:
    """Return the text of a message, which may be in parts."""
    if isinstance(content, Sequence) and not isinstance(content, str):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return str(content or "")


def shorten(text: str, most_chars: int | None) -> str:
    """Cut the middle out of a longer text, with a note of how much was left out."""
    if most_chars is None or len(text) <= most_chars:
        return text
    head, tail = most_chars * 2 // 3, most_chars - most_chars * 2 // 3
    return f"{text[:head]}\n[... {len(text) - head - tail} characters are left out here ...]\n{text[len(text) - tail :]}"
