"""Answers as JSON: without numbers that are not finite, and always valid Unicode."""

from __future__ import annotations

import json
import math
from typing import Any

Answer = dict[str, Any]


def encode_answer(answer: Answer) -> bytes:
    """Return an answer as JSON in UTF-8; numbers that are not finite become null, and half a surrogate pair `?`."""
    try:
        text = _dump(answer)
    except ValueError:
        text = _dump(_make_finite(answer))
    return text.encode("utf-8", "replace")


def _dump(answer: Any) -> str:
    return json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _make_finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _make_finite(one) for key, one in value.items()}
        case list() | tuple():
            return [_make_finite(one) for one in value]
    return value
