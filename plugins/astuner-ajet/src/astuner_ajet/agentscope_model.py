"""Chat models of AgentScope that take what any of its formatters writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def accept_bare_parts(model: Any) -> Any:
    """Return the model, which reads parts of a message without `type` as text.

    AgentJet's agents have DashScope's formatter, which writes `{"text": …}`; the model is one of OpenAI's API.
    """
    cls = type(model)

    class TunedModel(cls):  # type: ignore[misc, valid-type] # AgentScope is installed where agents use it
        async def __call__(self, messages: Any, *arguments: Any, **named: Any) -> Any:
            return await super().__call__([_name_parts(message) for message in messages], *arguments, **named)

    TunedModel.__name__, TunedModel.__qualname__ = cls.__name__, cls.__qualname__
    model.__class__ = TunedModel
    return model


def _name_parts(message: Any) -> Any:
    if not isinstance(message, Mapping) or not isinstance(message.get("content"), list):
        return message
    return {**message, "content": [_name_part(part) for part in message["content"]]}


def _name_part(part: Any) -> Any:
    if isinstance(part, Mapping) and "type" not in part and "text" in part:
        return {"type": "text", "text": part["text"] or ""}
    return part
