"""Untrusted texts in a prompt: between tags that they cannot close."""

from __future__ import annotations

import re
from hashlib import blake2b
from itertools import count

_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


def fence(text: str, name: str = "untrusted") -> str:
    """Return a text between `<name-ID>` and `</name-ID>`, where ID is a digest of the two.

    The author of a text cannot include its digest, so only we can close the tag. The same text gets the same tags, so answers can
    be cached. Lone surrogates, which no API takes, become U+FFFD.
    """
    text = _LONE_SURROGATE.sub("\ufffd", text)
    identity = _identify(name, text)
    return f"<{name}-{identity}>\n{text}\n</{name}-{identity}>"


def _identify(name: str, text: str) -> str:
    # A text that holds its own digest is never seen in practice; looking for it costs nothing.
    digests = (blake2b(f"{name}:{turn}:{text}".encode(), digest_size=8).hexdigest() for turn in count())
    return next(digest for digest in digests if digest not in text)
