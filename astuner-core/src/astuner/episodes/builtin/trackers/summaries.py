"""Summaries of the part of a conversation that a model is no longer shown."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from importlib.resources import files

from attrs import evolve

from astuner.contract.protocols import ContextRoom, RunInfo
from astuner.contract.schema import Message
from astuner.episodes.builtin.trackers.context_window import ContextWindow, append_text, find_turn_starts
from astuner.episodes.builtin.trackers.thinking import strip_thinking
from astuner.shared.clients.llm import LLMClient
from astuner.shared.clients.llm_endpoint import Endpoint, find_endpoint

Summarise = Callable[[Sequence[Message], ContextRoom], Awaitable[str]]
"""Makes the summary of messages; may raise or return an empty text."""


def make_llm_summariser(run_info: RunInfo, wanted_by: str) -> Summarise:
    """Return a summariser using the auxiliary LLM `context_tracker.alien_llm_model`; raises `NoEndpoint` if there is none."""
    section = run_info.config.context_tracker
    llm = _llm(find_endpoint(os.environ, wanted_by), section.alien_llm_model)

    async def summarise(messages: Sequence[Message], room: ContextRoom) -> str:
        prompt = f"{format_messages(messages)}\n\n{read_summary_prompt()}"
        return await llm.ask([{"role": "user", "content": prompt}], max_tokens=section.alien_llm_response_length)

    return summarise


def make_model_summariser(max_tokens: int) -> Summarise:
    """Return a summariser using the model under training, which is trained on its summaries."""

    async def summarise(messages: Sequence[Message], room: ContextRoom) -> str:
        def add_prompt(shown: Sequence[Message]) -> list[Message]:
            return append_text(shown, read_summary_prompt())

        async def fits(shown: Sequence[Message]) -> bool:
            return await room.count_tokens(add_prompt(shown)) <= room.max_prompt_tokens

        if not await fits(messages):
            window = ContextWindow.begin(messages)
            messages = (await window.move_on(messages, len(find_turn_starts(messages)), fits)).show(messages)
        return await room.ask_model(add_prompt(messages), max_tokens)

    return summarise


async def fold(
    window: ContextWindow, moved: ContextWindow, messages: Sequence[Message], room: ContextRoom, summarise: Summarise
) -> ContextWindow:
    """Return a moved window with a summary of what it leaves out, an earlier summary included.

    Raises `ValueError` for an empty summary, and any error of `summarise`.
    """
    summary = strip_thinking(await summarise(window.show(messages[: moved.start]), room))
    if not summary:
        raise ValueError("the summary is empty")
    return evolve(moved, summary=summary, summarised=moved.count_left_out(messages))


def read_summary_prompt() -> str:
    """Return the instruction that follows a conversation."""
    return (
        files("astuner.episodes.builtin.trackers")
        .joinpath("prompts", "summarise_conversation.txt")
        .read_text(encoding="utf-8")
        .strip()
    )


def format_messages(messages: Sequence[Message]) -> str:
    """Return a conversation as text, tool calls included."""
    return "\n\n".join(map(_format_message, messages))


def _format_message(message: Message) -> str:
    calls = (call["function"] for call in message.get("tool_calls") or ())
    lines = [f"[{message['role']}]", _text(message.get("content"))]
    lines += [f"calls {function['name']} with {function['arguments']}" for function in calls]
    return "\n".join(line for line in lines if line)


def _text(content: object) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False) if content else ""


# Trackers are made per episode, but the limit on concurrent requests is shared.
@cache
def _llm(endpoint: Endpoint, model: str) -> LLMClient:
    return LLMClient(endpoint, model)
