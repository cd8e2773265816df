"""Chat messages in the form of the GenAI semantic conventions: a role, and typed parts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from astuner.contract.schema import Message
from astuner.episodes.transcript.terminal_text import Page
from astuner.settings.config.secrets import Secrets
from astuner_loggers.episodes import to_encodable

Document = Any
"""Nested lists and mappings of JSON values."""

_ROLES = {"developer": "system", "function": "tool"}


_WORTH_KEEPING = range(200, 50_000)
"""Lengths of texts that are remembered with the result."""


def make_cleaner(secrets: Secrets) -> Callable[[str], str]:
    """Return what makes a text fit to be sent: without secrets, lone surrogates and NUL, which databases refuse."""

    def clean(text: str) -> str:
        return to_encodable(secrets.hide(text)).replace("\0", "\ufffd")

    # Looking for secrets is what takes time, and all episodes of a task have the same first messages.
    remember = lru_cache(maxsize=512)(clean)
    return lambda text: remember(text) if len(text) in _WORTH_KEEPING else clean(text)


class MessageConverter:
    """Converts the messages of one episode, each once: they recur in every later request."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        self._known: dict[int, tuple[Message, dict[str, Document]]] = {}

    def convert(self, message: Message) -> dict[str, Document]:
        """Return the message with its parts; not to be changed."""
        found = self._known.get(id(message))
        if found is None:
            # The message is kept: the id of one that is gone may be that of another.
            found = self._known[id(message)] = (message, self._convert(message))
        return found[1]

    def convert_all(self, messages: Sequence[Message]) -> list[dict[str, Document]]:
        """Return all of them."""
        return [self.convert(message) for message in messages]

    def convert_reply(self, reply: Message, finish_reason: str) -> dict[str, Document]:
        """Return an answer of the model."""
        return {**self.convert(reply), "finish_reason": finish_reason}

    def clean_tree(self, value: Document) -> Document:
        """Return nested values with every text cleaned."""
        if isinstance(value, str):
            return self._clean(value)
        if isinstance(value, Mapping):
            return {self._clean(str(key)): self.clean_tree(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.clean_tree(item) for item in value]
        # Not valid in JSON.
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    def read_arguments(self, arguments: object) -> Document:
        """Return the arguments of a tool call: an object if they are valid JSON, as they should be, else their text."""
        # Secrets are found in the text; a model may put one anywhere.
        text = self._clean(arguments if isinstance(arguments, str) else json.dumps(arguments, default=str, ensure_ascii=False))
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text

    def _convert(self, message: Message) -> dict[str, Document]:
        role = str(message.get("role", "user"))
        converted = {"role": _ROLES.get(role, role), "parts": list(self._parts(message))}
        if isinstance(name := message.get("name"), str) and name:
            converted["name"] = self._clean(name)
        return converted

    def _parts(self, message: Message) -> Iterator[dict[str, Document]]:
        if message.get("role") in ("tool", "function"):
            identity = str(message.get("tool_call_id") or "")
            yield {"type": "tool_call_response", "id": identity, "response": self._clean(read_text(message))}
            return
        if isinstance(thought := message.get("reasoning_content"), str) and thought:
            yield {"type": "reasoning", "content": self._clean(thought)}
        content = message.get("content")
        if isinstance(content, list | tuple):
            for part in content:
                yield self._part(part)
        elif content:
            yield {"type": "text", "content": self._clean(read_text(message))}
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            yield {
                "type": "tool_call",
                "id": str(call.get("id") or ""),
                "name": self._clean(str(function.get("name"))),
                "arguments": self.read_arguments(function.get("arguments")),
            }

    def _part(self, part: Any) -> dict[str, Document]:
        if not isinstance(part, Mapping):
            return {"type": "text", "content": self._clean(str(part))}
        if isinstance(text := part.get("text"), str):
            return {"type": "text", "content": self._clean(text)}
        url = part.get("image_url")
        url = url.get("url") if isinstance(url, Mapping) else url
        if not isinstance(url, str):
            return {**self.clean_tree(part), "type": str(part.get("type", "unknown"))}
        head, comma, data = url.partition(",")
        if comma and head.startswith("data:") and head.endswith(";base64"):
            mime = head.removeprefix("data:").removesuffix(";base64")
            return {"type": "blob", "modality": "image", "mime_type": mime, "content": data}
        return {"type": "uri", "modality": "image", "uri": self._clean(url)}


def read_text(message: Message) -> str:
    """Return the text of a message."""
    content = message.get("content")
    if isinstance(content, str) or content is None:
        return content or ""
    if isinstance(content, list | tuple):
        return "".join(part["text"] for part in content if isinstance(part, Mapping) and isinstance(part.get("text"), str))
    return json.dumps(content, ensure_ascii=False, default=str)


def shorten_texts(value: Document, longest: int | None) -> Document:
    """Return nested values in which the middle of each text over `longest` characters is replaced by a note of its length."""
    if longest is None:
        return value
    page = Page(longest=longest)

    def shorten(item: Document) -> Document:
        if isinstance(item, str):
            return page.shorten(item)
        if isinstance(item, Mapping):
            blob = item.get("type") == "blob" and len(item.get("content", "")) > longest
            return {"type": "text", "content": _name_blob(item)} if blob else {key: shorten(one) for key, one in item.items()}
        return [shorten(one) for one in item] if isinstance(item, list | tuple) else item

    return shorten(value)


def _name_blob(part: Mapping[str, Any]) -> str:
    # Half of an image cannot be shown.
    return f"[... {part['modality']}, {part['mime_type']}, {len(part['content']):,} characters ...]"
