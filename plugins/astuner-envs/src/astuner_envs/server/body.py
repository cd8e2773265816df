"""The body of every request: five optional keys; others are ignored."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from astuner.model.http_server import LARGE_BODY, load_json
from astuner_envs.server.faults import OddBody, TooLarge
from astuner_envs.server.surrogates import has_half_pair

if TYPE_CHECKING:
    from starlette.requests import Request

MOST_BYTES = 16 << 20


@frozen(kw_only=True)
class Body:
    """What a client sends."""

    env_type: str = ""
    task_id: str = ""
    instance_id: str = ""
    messages: Mapping[str, Any] = field(factory=dict)
    params: Mapping[str, Any] = field(factory=dict)

    @property
    def split(self) -> str:
        """The split among the parameters."""
        split = self.params.get("split")
        return split if isinstance(split, str) else ""

    @property
    def number(self) -> int | None:
        """The number of a step, if the client gives one."""
        # Our own key: others use `step` in their own sense.
        number = self.params.get("astuner_step")
        return number if isinstance(number, int) and not isinstance(number, bool) else None


async def read_body(request: Request) -> Body:
    """Read a body; raises a `Fault` if it has another form."""
    text = bytearray()
    async for part in request.stream():
        text += part
        if len(text) > MOST_BYTES:
            raise TooLarge(f"a request has at most {MOST_BYTES >> 20} MiB")
    # In a thread, a large one holds up no other instance.
    return await asyncio.to_thread(_parse, text) if len(text) > LARGE_BODY else _parse(text)


def _parse(text: bytearray) -> Body:
    try:
        given = load_json(text or b"{}")
    except (ValueError, RecursionError) as error:
        raise OddBody(f"the body is not valid JSON: {error}") from None
    if not isinstance(given, dict):
        raise OddBody("the body is an object")
    if b"\\u" in text and has_half_pair(given):
        raise OddBody("the body holds half a surrogate pair, which is not a character")
    return Body(
        env_type=_text(given, "env_type"),
        task_id=_text(given, "task_id"),
        instance_id=_text(given, "instance_id"),
        messages=_object(given, "messages"),
        params=_object(given, "params"),
    )


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if value is None or isinstance(value, str):
        return value or ""
    raise OddBody(f"`{key}` is a text or null, not {value!r:.80}")


def _object(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = given.get(key)
    if value is None or isinstance(value, dict):
        return value or {}
    raise OddBody(f"`{key}` is an object, not {value!r:.80}")
