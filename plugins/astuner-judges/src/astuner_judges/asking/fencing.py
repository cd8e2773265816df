"""Texts of the model under training in a prompt: between tags that they cannot close."""

from __future__ import annotations

import re
from hashlib import blake2b
from itertools import count

from astuner_judges.asking.templates import Language, prompt

_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


def fenced(text: str, name: str = "untrusted") -> str:
    """Return a text between `<name-ID>` and `</name-ID>`, where ID is a digest of the two.

    Whoever writes the text cannot write the digest of it into it, so that only we close the tag; the same text gets the same
    tags, so that answers to it can be cached. What no API takes (lone surrogates) becomes U+FFFD.
    """
    text = _LONE_SURROGATE.sub("\ufffd", text)
    identity = _identity(name, text)
    return f"<{name}-{identity}>\n{text}\n</{name}-{identity}>"


def fence_rule(language: Language) -> str:
    """Return what a system prompt says of such tags: what is between them is data, whatever it says."""
    return prompt("astuner_judges.asking", "fence_rule", language)


def shortened(text: str, most_chars: int | None) -> str:
    """Return a text without its middle where it is longer than that, with a note of how much is left out."""
    if most_chars is None or len(text) <= most_chars:
        return text
    head, tail = most_chars * 2 // 3, most_chars - most_chars * 2 // 3
    return f"{text[:head]}\n[... {len(text) - head - tail} characters are left out here ...]\n{text[len(text) - tail :]}"


def _identity(name: str, text: str) -> str:
    # A text that holds its own digest does not come by; that it is looked for costs nothing.
    digests = (blake2b(f"{name}:{turn}:{text}".encode(), digest_size=8).hexdigest() for turn in count())
    return next(digest for digest in digests if digest not in text)
