"""Chat messages from clients, normalised, and the digests of their meaning."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from attrs import define, field

from astuner.contract.schema import Message
from astuner.model.rendering.errors import bad_request
from astuner.model.rendering.tool_calls.sampled_json import parse_arguments

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}

TEXT_PARTS: Mapping[str, str] = {"text": "text", "refusal": "refusal"}
"""The types of content parts that are text, and the field that holds it."""

KEPT_CONVERSATIONS = 16
"""Number of conversations whose normalised messages are cached."""


# Made once: `json.dumps` makes an encoder per call.
_SORTED = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


def normalise(messages: Any, known: Sequence[Message] = ()) -> tuple[Message, ...]:
    """Return messages with plain text content, `developer` as `system`, and only the fields that carry meaning.

    `known` are the first of them, normalised before. Raises ApiError (400) naming the unsupported part; nothing
    that a model should see is dropped.
    """
    if not isinstance(messages, list) or not messages:
        raise bad_request("'messages' must be a list with at least one message.", "messages")
    start = len(known)
    return (*known, *(_message(message, f"messages[{start + place}]") for place, message in enumerate(messages[start:])))


@define(eq=False)
class MessageReader:
    """Normalises messages as `normalise` does, returning those of an earlier request as the same objects.

    So a growing conversation is not normalised again with every request.
    """

    _kept: OrderedDict[str, tuple[list[Any], tuple[Message, ...]]] = field(factory=OrderedDict, init=False)

    def __call__(self, messages: Any) -> tuple[Message, ...]:
        """Return the messages of a request, normalised; raises ApiError (400) as `normalise` does."""
        key = _make_key(messages)
        if key is None:
            return normalise(messages)
        raw, known = self._kept.get(key, ([], ()))
        if messages[: len(raw)] != raw:
            known = ()
        normalised = normalise(messages, known)
        exact = _count_exact(messages, len(known))
        self._kept[key] = (messages[:exact], normalised[:exact])
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT_CONVERSATIONS:
            self._kept.popitem(last=False)
        return normalised


def _make_key(messages: Any) -> str | None:
    """Return a key that identifies a conversation: the content of its first two messages."""
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages[:2]):
        return None
    return repr([message.get("content") for message in messages[:2]])


def _count_exact(messages: list[Any], start: int) -> int:
    """Count the messages whose equality implies equal text: in JSON arguments 1 equals `true`, but differs as text."""
    for place in range(start, len(messages)):
        for call in messages[place].get("tool_calls") or ():
            if not isinstance(call.get("id"), str | None) or not isinstance(call["function"].get("arguments"), str | None):
                return place
    return len(messages)


def extend_digest(digest: bytes, message: Message) -> bytes:
    """Return the digest of a conversation that ends with one more message."""
    return blake2b(digest + encode_meaning(message), digest_size=16).digest()


def encode_meaning(message: Message) -> bytes:
    """Return a message's meaning, independent of JSON formatting, null fields and call ids."""
    role = message["role"]
    calls = [[call["function"]["name"], _canonical(call["function"]["arguments"])] for call in message.get("tool_calls") or ()]
    # Frameworks put a name on assistant messages that the gateway's own reply never had.
    name = None if role == "assistant" else message.get("name")
    fields = [
        role,
        message.get("content") or "",
        message.get("reasoning_content") or "",
        calls,
        name,
        message.get("tool_call_id"),
    ]
    # Escapes half a surrogate pair, as JSON would, in a fifth of its time.
    return repr(fields).encode()


def join_answers(messages: Sequence[Message]) -> list[Message]:
    """Return messages in which an answer that continues the one before it is one with it."""
    joined: list[Message] = []
    for message in messages:
        if joined and joined[-1]["role"] == message["role"] == "assistant" and not joined[-1].get("tool_calls"):
            text = (joined[-1].get("content") or "") + (message.get("content") or "")
            joined[-1] = {**joined[-1], **message, "content": text}
        else:
            joined.append(message)
    return joined


def _canonical(arguments: str) -> str:
    parsed = parse_arguments(arguments)
    if isinstance(parsed, str):
        return arguments
    try:
        return _SORTED(parsed)
    except RecursionError:
        # Nested almost too deeply to be parsed.
        return arguments


def _message(message: Any, place: str) -> Message:
    if not isinstance(message, dict):
        raise bad_request(f"{place} must be an object.", place)
    given = message.get("role")
    role = ROLES.get(given) if isinstance(given, str) else None
    if role is None:
        raise bad_request(f"{place}.role is {given!r}; known roles: {', '.join(ROLES)}.", f"{place}.role")
    for legacy in ("function_call", "audio"):
        if message.get(legacy):
            raise bad_request(f"{place}.{legacy} is not served; send 'tool_calls' and text content.", f"{place}.{legacy}")
    normalised: dict[str, Any] = {"role": role, "content": join_text(message.get("content"), f"{place}.content")}
    calls = message.get("tool_calls")
    if role == "assistant":
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        if reasoning:
            normalised["reasoning_content"] = join_text(reasoning, f"{place}.reasoning_content")
        if calls:
            normalised["tool_calls"] = _calls(calls, f"{place}.tool_calls")
        if not normalised["content"] and isinstance(message.get("refusal"), str):
            normalised["content"] = message["refusal"]
    elif calls:
        raise bad_request(f"{place}: only assistant messages carry tool_calls.", f"{place}.tool_calls")
    elif message.get("content") is None and role != "tool":
        raise bad_request(f"{place}.content is missing.", f"{place}.content")
    for key in ("name", "tool_call_id"):
        value = message.get(key)
        if value is None:
            continue
        if not isinstance(value, str):
            raise bad_request(f"{place}.{key} must be a string.", f"{place}.{key}")
        normalised[key] = value
    return normalised


def join_text(content: Any, place: str, parts: Mapping[str, str] = TEXT_PARTS) -> str:
    """Return content that is a text or a list of parts as one text; `parts` names the types of part that are text.

    Raises ApiError (400) for any other part, since nothing is dropped silently.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise bad_request(f"{place} must be a string or a list of parts.", place)
    texts = []
    for number, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        key = parts.get(kind) if isinstance(kind, str) else None
        text = part if isinstance(part, str) else None if key is None else part.get(key)
        if not isinstance(text, str):
            raise bad_request(
                f"{place}[{number}] is a part of type {kind!r}; only text is served, and nothing is dropped silently.",
                f"{place}[{number}]",
            )
        texts.append(text)
    return "\n".join(texts)


def _calls(calls: Any, place: str) -> list[dict[str, Any]]:
    if not isinstance(calls, list):
        raise bad_request(f"{place} must be a list.", place)
    normalised = []
    for number, call in enumerate(calls):
        given = call.get("function") if isinstance(call, dict) else None
        function: Mapping[str, Any] = given if isinstance(given, dict) else {}
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if not isinstance(function.get("name"), str) or not isinstance(arguments, str | None):
            raise bad_request(
                f"{place}[{number}] needs function.name and function.arguments, both strings.", f"{place}[{number}].function"
            )
        normalised.append(
            {
                "id": str(call.get("id") or ""),
                "type": "function",
                "function": {"name": function["name"], "arguments": arguments or "{}"},
            }
        )
    return normalised
