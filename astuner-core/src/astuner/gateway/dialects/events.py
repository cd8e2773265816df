"""JSON on the wire, whole and as server-sent events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# Made once: `json.dumps` makes an encoder with every call.
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_json(body: Mapping[str, Any]) -> bytes:
    """Encode a body; lone surrogates, which a model may sample, are kept."""
    return _ENCODE(body).encode("utf-8", "surrogatepass")


def encode_event(body: Mapping[str, Any], name: str | None = None) -> bytes:
    """Return a server-sent event, with a name in APIs that use names."""
    head = b"" if name is None else f"event: {name}\n".encode()
    return head + b"data: " + encode_json(body) + b"\n\n"
