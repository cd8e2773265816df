"""A conversation as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

CELL = "text-align:left;vertical-align:top;white-space:pre-wrap"


def render_conversation(title: str, messages: Iterable[Mapping[str, Any]]) -> str:
    """Return a table with a row for each message, below a title; nothing in a message is markup."""
    rows = [
        f'<tr><th style="{CELL}">{escape(str(said.get("role")))}</th><td style="{CELL}">{_render(said)}</td></tr>'
        for said in messages
    ]
    return f"<table><caption>{escape(title)}</caption>{''.join(rows)}</table>"


def _render(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    parts = [str(content)] if content else []
    return escape("\n".join([*parts, *(f"{call['name']}({call['arguments']})" for call in calls)]))
