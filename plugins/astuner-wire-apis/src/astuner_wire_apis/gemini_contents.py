"""The conversation in a body of Gemini's API: contents made of parts."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, field

from astuner.model.gateway.wire_apis import bad_request, format_value, read_string_in, unwrap_arguments

KINDS = ("text", "functionCall", "functionResponse")
"""Parts that are served."""

SIGNED = b"astuner:"
"""Begins the signatures that hold reasoning."""


def rename(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object with its names in camel case."""
    return {re.sub("_([a-z])", lambda found: found[1].upper(), name): value for name, value in item.items()}


def sign_thoughts(thoughts: str) -> str:
    """Return a signature that holds the reasoning before a call: clients return it unchanged, and most drop the thoughts."""
    return b64encode(SIGNED + thoughts.encode("utf-8", "surrogatepass")).decode()


def _read_signature(signature: Any) -> str:
    """Return the reasoning in a signature; empty for one of another model."""
    try:
        found = b64decode(signature, validate=True) if isinstance(signature, str) else b""
        return found.removeprefix(SIGNED).decode("utf-8", "surrogatepass") if found.startswith(SIGNED) else ""
    except ValueError:
        return ""


def read_instruction(given: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the system message; raises ApiError (400)."""
    if not given:
        return
    texts = [given] if isinstance(given, str) else []
    for place, part in () if texts else _read_parts(given, "systemInstruction"):
        if "text" not in part:
            raise _refuse(part, place)
        texts.append(read_string_in(part, "text", place))
    if texts:
        yield {"role": "system", "content": texts}


def read_contents(contents: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the messages of chat completions that contents stand for; raises ApiError (400)."""
    if not isinstance(contents, list) or not contents:
        raise bad_request("'contents' must be a list with at least one content.", "contents")
    calls = _Calls()
    for number, content in enumerate(contents):
        place = f"contents[{number}]"
        parts = _read_parts(content, place)
        role = content.get("role") or "user"
        if role not in ("user", "model", "function"):
            raise bad_request(f"{place}.role is {format_value(role)}; known roles: user, model.", f"{place}.role")
        if role == "model":
            yield _read_answer(parts, calls)
        elif not parts:
            raise bad_request(f"{place}.parts is empty.", f"{place}.parts")
        else:
            yield from _read_turn(parts, calls)


Part = tuple[str, Mapping[str, Any]]
"""A part with its place in the body."""


@define
class _Calls:
    """The calls that wait for their responses: ids are optional in this API, so the order decides."""

    _made: int = 0
    _waiting: list[tuple[str, str]] = field(factory=list)
    """Ids and names."""

    def add(self, given: Any, name: str) -> str:
        """Return the id of a call."""
        self._made += 1
        call_id = given if isinstance(given, str) and given else f"call_{self._made}"
        self._waiting.append((call_id, name))
        return call_id

    def take(self, given: Any, name: str) -> str:
        """Return the id of the call that a response belongs to."""
        wanted = next((call for call in self._waiting if call[0] == given), None)
        wanted = wanted or next((call for call in self._waiting if call[1] == name), None)
        if wanted is None:
            return given if isinstance(given, str) and given else name
        self._waiting.remove(wanted)
        return wanted[0]


def _read_answer(parts: list[Part], calls: _Calls) -> Mapping[str, Any]:
    texts: list[str] = []
    thoughts: list[str] = []
    signed = ""
    made: list[Mapping[str, Any]] = []
    for place, part in parts:
        if "functionCall" in part:
            signed = signed or _read_signature(part.get("thoughtSignature"))
            made.append(_read_call(part["functionCall"], f"{place}.functionCall", calls))
        elif "text" in part:
            (thoughts if part.get("thought") is True else texts).append(read_string_in(part, "text", place))
        elif set(part) - {"thought", "thoughtSignature"}:
            # A signature alone belongs to a thought of another model.
            raise _refuse(part, place)
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if reasoning := "".join(thoughts) or signed:
        message["reasoning_content"] = reasoning
    if made:
        message["tool_calls"] = made
    return message


def _read_turn(parts: list[Part], calls: _Calls) -> Iterator[Mapping[str, Any]]:
    """Yield a turn of the user: its texts as one message, each function's response as a separate one."""
    texts: list[str] = []
    for place, part in parts:
        if "functionResponse" in part:
            if texts:
                yield {"role": "user", "content": texts}
                texts = []
            yield _read_response(part["functionResponse"], f"{place}.functionResponse", calls)
        elif "text" in part:
            texts.append(read_string_in(part, "text", place))
        else:
            raise _refuse(part, place)
    if texts:
        yield {"role": "user", "content": texts}


def _read_call(call: Any, place: str, calls: _Calls) -> Mapping[str, Any]:
    if not isinstance(call, dict):
        raise bad_request(f"{place} must be an object.", place)
    name = read_string_in(call, "name", place)
    arguments = call.get("args") or {}
    if not isinstance(arguments, dict):
        raise bad_request(f"{place}.args must be an object.", f"{place}.args")
    function = {"name": name, "arguments": unwrap_arguments(arguments)}
    return {"id": calls.add(call.get("id"), name), "type": "function", "function": function}


def _read_response(response: Any, place: str, calls: _Calls) -> Mapping[str, Any]:
    if not isinstance(response, dict):
        raise bad_request(f"{place} must be an object.", place)
    name = read_string_in(response, "name", place)
    given = response.get("response") or {}
    if not isinstance(given, dict):
        raise bad_request(f"{place}.response must be an object.", f"{place}.response")
    if response.get("parts"):
        raise bad_request(f"{place}.parts holds files, which are not served; send their text in the response.", f"{place}.parts")
    return {"role": "tool", "tool_call_id": calls.take(response.get("id"), name), "content": _write_response(given)}


def _write_response(given: Mapping[str, Any]) -> str:
    """Return a response as a model reads it: `output` and `error`, Google's names for the two outcomes, as they are."""
    if len(given) == 1:
        name, value = next(iter(given.items()))
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if name in ("output", "error"):
            return text if name == "output" else f"Error:\n{text}"
    return json.dumps(given, ensure_ascii=False)


def _read_parts(content: Any, place: str) -> list[Part]:
    if not isinstance(content, dict):
        raise bad_request(f"{place} must be an object.", place)
    parts = content.get("parts")
    # A single part may stand without a list.
    parts = [parts] if isinstance(parts, dict) else parts or []
    if not isinstance(parts, list):
        raise bad_request(f"{place}.parts must be a list.", f"{place}.parts")
    found = [(f"{place}.parts[{number}]", part) for number, part in enumerate(parts)]
    for at, part in found:
        if not isinstance(part, dict):
            raise bad_request(f"{at} must be an object.", at)
    return [(at, rename(part)) for at, part in found]


def _refuse(part: Mapping[str, Any], place: str) -> Exception:
    names = ", ".join(part) or "nothing"
    return bad_request(
        f"{place} has {names}, which is not served here; parts may have {', '.join(KINDS)}. Nothing is dropped silently.", place
    )
