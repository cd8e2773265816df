"""Clients of the OpenAI SDK that know their model."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

NAMES = ("messages", "tools", "tool_choice")
"""The arguments of `create` that may be given by position."""


def fill_in_model(client: Any, model: str) -> Any:
    """Return the client, whose chat completions need no `model`, and take `messages` by position.

    Clients that are copies of it (`with_options`) do not.
    """
    completions = client.chat.completions
    for name in ("create", "parse", "stream"):
        if hasattr(completions, name):
            setattr(completions, name, _fill_in(getattr(completions, name), model))
    return client


def _fill_in(method: Callable[..., Any], model: str) -> Callable[..., Any]:
    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        given = {"model": model, **dict(zip(NAMES, arguments, strict=False)), **named}
        if not given.get("tools"):
            # The API refuses an empty list, and a choice among no tools.
            given.pop("tools", None)
            given.pop("tool_choice", None)
        return method(**given)

    return call
