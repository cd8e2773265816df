"""A client of the OpenAI SDK that sends chat completions in plain JSON as they are, where the SDK would not change them.

The SDK walks through every argument of a request, and through every field of an answer, in Python and by their type hints: to
rename keys, to encode files, and to accept what does not fit. Plain JSON comes out of the first equal, and answers of the gateway
fit, so that pydantic itself reads them. In a conversation of a few turns both are a third of all CPU time of a call.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from types import FunctionType, ModuleType
from typing import Any

_LEAVES = (str, int, float, bool, type(None))

_OPTIONS = {"extra_headers": "headers", "extra_query": "params", "extra_body": "extra_json"}
"""Arguments of `create` that are not part of the body, as `post` names them."""


@cache
def plain_client_class() -> type[Any]:
    """Return the subclass of `openai.AsyncOpenAI`; the SDK is imported only now."""
    import openai
    import pydantic
    from openai.resources.chat import AsyncChat
    from openai.resources.chat.completions import AsyncCompletions
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    whole: Any = client_library("openai").Response
    # Older versions have only the first.
    left_out = tuple(getattr(openai, name) for name in ("NotGiven", "Omit") if hasattr(openai, name))
    fields = inspect.signature(AsyncCompletions.create).parameters.keys() - {"self", "timeout", *_OPTIONS}

    class PlainCompletions(AsyncCompletions):
        async def create(self, **given: Any) -> Any:
            body = {name: value for name, value in given.items() if name in fields and not isinstance(value, left_out)}
            body["messages"] = _dump_messages(body.get("messages"))
            options = {_OPTIONS.get(name, name): value for name, value in given.items() if name not in fields}
            if not (
                {"messages", "model"} <= given.keys()
                and options.keys() <= {"timeout", *_OPTIONS.values()}
                and is_plain(body)
                and "stream" not in (given.get("extra_body") or ())
                and _is_own(AsyncCompletions.create)
            ):
                return await super().create(**given)
            options = {name: value for name, value in options.items() if value is not None or name == "timeout"}
            ask: Any = self._client.post
            if body.get("stream"):
                kind = openai.AsyncStream[ChatCompletionChunk]
                return await ask(_PATH, cast_to=ChatCompletion, body=body, options=options, stream=True, stream_cls=kind)
            if "headers" in options:
                # One of them may ask for the raw response.
                return await ask(_PATH, cast_to=ChatCompletion, body=body, options=options)
            return read_answer(await ask(_PATH, cast_to=whole, body=body, options=options))

    def read_answer(response: Any) -> Any:
        data = response.json()
        try:
            answer = ChatCompletion.model_validate(data)
        except pydantic.ValidationError:
            # Half a surrogate pair, which a model may sample and pydantic refuses.
            answer = ChatCompletion.construct(**data)
        answer._request_id = response.headers.get("x-request-id")
        return answer

    class PlainChat(AsyncChat):
        @cached_property
        def completions(self) -> PlainCompletions:
            return PlainCompletions(self._client)

    class PlainAsyncOpenAI(openai.AsyncOpenAI):
        @cached_property
        def chat(self) -> PlainChat:
            return PlainChat(self)

    return PlainAsyncOpenAI


_PATH = "/chat/completions"


def is_plain(value: Any) -> bool:
    """Whether a value is made of JSON's own types alone."""
    if type(value) in _LEAVES:
        return True
    if type(value) is dict:
        return all(type(key) is str and is_plain(one) for key, one in value.items())
    return type(value) is list and all(is_plain(one) for one in value)


def _is_own(method: Any) -> bool:
    """Whether a method of the SDK is not replaced, as programs that trace calls do; theirs is called then."""
    return type(method) is FunctionType and method.__globals__["__name__"].partition(".")[0] == "openai"


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


def client_library(sdk: str) -> ModuleType:
    """Return the module that an installed SDK makes its requests with: `httpx`, or `httpx2` since openai 3 and anthropic 2."""
    roots = [base.__module__.partition(".")[0] for base in importlib.import_module(sdk).DefaultAsyncHttpxClient.__mro__]
    return importlib.import_module(next(root for root in roots if root in ("httpx", "httpx2")))
