"""Summaries of the part of a conversation that a model is no longer shown."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from importlib.resources import files

from attrs import evolve

from astuner.builtin.trackers.context_window import ContextWindow, turn_starts, with_text
from astuner.builtin.trackers.thinking import without_thinking
from astuner.clients.llm import LLMClient
from astuner.clients.llm_endpoint import Endpoint, find_endpoint
from astuner.protocols import ContextRoom, RunInfo
from astuner.schema import Message

Summarise = Callable[[Sequence[Message], ContextRoom], Awaitable[str]]
"""Makes the summary of messages; may raise, and may come back empty."""


def summary_by_llm(run_info: RunInfo, wanted_by: str) -> Summarise:
    """Return summaries by the auxiliary LLM `context_tracker.alien_llm_model`; raises `NoEndpoint` when there is none."""
    section = run_info.config.context_tracker
    llm = _llm(find_endpoint(os.environ, wanted_by), section.alien_llm_model)

    async def summarise(messages: Sequence[Message], room: ContextRoom) -> str:
        asked = f"{transcript_of(messages)}\n\n{summary_prompt()}"
        return await llm.ask([{"role": "user", "content": asked}], max_tokens=section.alien_llm_response_length)

    return summarise


def summary_by_model(max_tokens: int) -> Summarise:
    """Return summaries by the model under training, which is trained on them."""

    async def summarise(messages: Sequence[Message], room: ContextRoom) -> str:
        def asked(shown: Sequence[Message]) -> list[Message]:
            return with_text(shown, summary_prompt())

        def fits(shown: Sequence[Message]) -> bool:
            return room.count_tokens(asked(shown)) <= room.max_prompt_tokens

        if not fits(messages):
            window = ContextWindow.opened(messages)
            messages = window.moved(messages, len(turn_starts(messages)), fits).shown(messages)
        return await room.ask_model(asked(messages), max_tokens)

    return summarise


async def fold(
    window: ContextWindow, moved: ContextWindow, messages: Sequence[Message], room: ContextRoom, summarise: Summarise
) -> ContextWindow:
    """Return a moved window with a summary of what it leaves out, an earlier summary included.

    Raises `ValueError` for an empty one, and whatever making it raises.
    """
    told = without_thinking(await summarise(window.shown(messages[: moved.start]), room))
    if not told:
        raise ValueError("the summary is empty")
    return evolve(moved, summary=told, summarised=moved.left_out(messages))


def summary_prompt() -> str:
    """Return the instruction that follows a conversation."""
    return files("astuner.builtin.trackers").joinpath("prompts", "summarise_conversation.txt").read_text(encoding="utf-8").strip()


def transcript_of(messages: Sequence[Message]) -> str:
    """Return a conversation as text, tool calls included."""
    return "\n\n".join(map(_told, messages))


def _told(message: Message) -> str:
    calls = (call["function"] for call in message.get("tool_calls") or ())
    lines = [f"[{message['role']}]", _text(message.get("content"))]
    lines += [f"calls {function['name']} with {function['arguments']}" for function in calls]
    return "\n".join(line for line in lines if line)


def _text(content: object) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False) if content else ""


# Trackers are made per episode, and the bound on requests under way holds for all of them.
@cache
def _llm(endpoint: Endpoint, model: str) -> LLMClient:
    return LLMClient(endpoint, model)
