"""Parses JSON bodies, fast enough that a large one does not delay other requests for long."""

from __future__ import annotations

import json
from typing import Any

LARGE_BODY = 1 << 18
"""Larger bodies, in bytes, are read in a thread."""


def load_json(raw: bytes | bytearray, **options: Any) -> Any:
    """Parse a body as `json.loads` does with these options.

    What msgspec reads, `json` reads as the same values, but takes twice the time, in which no other thread runs. `json` gets
    what msgspec refuses: lone surrogates, NaN, numbers beyond a float, other encodings, and all that is not valid.
    """
    import msgspec

    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return json.loads(raw, **options)
