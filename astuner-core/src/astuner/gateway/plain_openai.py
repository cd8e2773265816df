"""A client of the OpenAI SDK that sends messages and tools as they are, where the SDK would not change them.

The SDK walks through every message and tool of a request, in Python and by their type hints, to rename keys and encode files.
Messages in plain JSON come out equal, and in a conversation of a few turns this is a third of all CPU time of a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Any

_LEAVES = (str, int, float, bool, type(None))


@cache
def plain_client_class() -> type[Any]:
    """Return the subclass of `openai.AsyncOpenAI`; the SDK is imported only now."""
    import openai
    from openai.resources.chat import AsyncChat
    from openai.resources.chat.completions import AsyncCompletions

    class PlainCompletions(AsyncCompletions):
        async def create(self, *, messages: Any, tools: Any = None, extra_body: Any = None, **others: Any) -> Any:
            given = {"messages": messages} if tools is None else {"messages": messages, "tools": tools}
            found = {name: _dump_messages(value) if name == "messages" else value for name, value in given.items()}
            if not all(isinstance(value, list) and is_plain(value) for value in found.values()):
                return await super().create(**given, extra_body=extra_body, **others)
            # The SDK merges these into the body without a look at them.
            return await super().create(messages=[], extra_body={**found, **(extra_body or {})}, **others)

    class PlainChat(AsyncChat):
        @cached_property
        def completions(self) -> PlainCompletions:
            return PlainCompletions(self._client)

    class PlainAsyncOpenAI(openai.AsyncOpenAI):
        @cached_property
        def chat(self) -> PlainChat:
            return PlainChat(self)

    return PlainAsyncOpenAI


def is_plain(value: Any) -> bool:
    """Whether a value is made of JSON's own types alone."""
    if type(value) in _LEAVES:
        return True
    if type(value) is dict:
        return all(type(key) is str and is_plain(one) for key, one in value.items())
    return type(value) is list and all(is_plain(one) for one in value)


def _dump_messages(messages: Any) -> Any:
    """Return messages with answers of the SDK, which agents append as they are, as the SDK itself would send them."""
    import pydantic

    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return messages
    return [
        one.model_dump(exclude_unset=True, mode="json")
        if isinstance(one, pydantic.BaseModel) and not isinstance(one, Mapping) and not hasattr(one, "__api_exclude__")
        else one
        for one in messages
    ]
