"""A lower bound on the tokens of a text: one that is too long is recognised before it is encoded."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

KEEPING_NORMALISERS = ("Prepend", "ByteLevel", "NFC")
"""Normalisers that shorten no text, or none that is in NFC."""

KEEPING_STEPS = ("ByteLevel", "Metaspace", "Digits", "UnicodeScripts")
"""Steps that cut a text into words and drop none of it."""

SHRINKING = 4
"""By how much NFC may shorten a text, in UTF-8: seven bytes of an iota and two marks become a letter of two bytes."""

SEAM = 32
"""Bytes that composition may save where two pieces of a text meet, each of them in NFC."""

WIDEST = 4
"""Bytes of the longest character, which may be one unknown token."""

_PIECE = 1 << 16


@frozen
class LengthBound:
    """What bounds the number of a text's tokens from below."""

    most_bytes: int
    """Of a normalised text, in UTF-8, that one token stands for."""
    composes: bool
    """Whether the tokenizer composes characters (NFC) first."""

    def count_at_least(self, text: str) -> int:
        """Return a number of tokens that the text has at least."""
        return self.count_tokens(self.count_bytes(text))

    def count_tokens(self, size: int) -> int:
        """Return a number of tokens that a text of this many bytes, normalised, has at least."""
        return -(-size // self.most_bytes)

    def count_bytes(self, text: str) -> int:
        """Return a number of bytes that the text, normalised, has at least. That of a text in pieces is the sum of theirs."""
        if text.isascii():
            return len(text)
        # In pieces: a whole copy of a long text would take as much memory again.
        return sum(self._count_piece(text[start : start + _PIECE]) for start in range(0, len(text), _PIECE))

    def _count_piece(self, piece: str) -> int:
        size = len(piece.encode("utf-8", "surrogatepass"))
        if not self.composes:
            return size
        return max(0, size - SEAM) if unicodedata.is_normalized("NFC", piece) else size // SHRINKING


def find_length_bound(backend: Any, added: Mapping[int, Any]) -> LengthBound | None:
    """Return the bound of a tokenizer; None if it has none.

    `backend` is a `tokenizers.Tokenizer`, `added` are the tokens added to its vocabulary, by id, with their flags. There is no
    bound where a step drops part of the text (accents, spaces between words), or where one token takes in any number of
    characters (an unknown word; a special token with the spaces around it).
    """
    if backend is None or backend.truncation is not None or any(token.lstrip or token.rstrip for token in added.values()):
        return None
    state = json.loads(backend.to_str())
    normalisers = list(_list_steps(state["normalizer"]))
    steps = list(_list_steps(state["pre_tokenizer"]))
    if not all(map(_keeps_length, normalisers)) or not all(map(_keeps_text, steps)):
        return None
    writes_bytes = any(step["type"] == "ByteLevel" for step in [*normalisers, *steps])
    if not _covers_every_byte(state["model"], writes_bytes):
        return None
    longest = max(len(word.encode("utf-8", "surrogatepass")) for word in backend.get_vocab(True))
    return LengthBound(max(WIDEST, longest), any(step["type"] == "NFC" for step in normalisers))


def _list_steps(step: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """Yield a step, or those of a sequence."""
    if step is None:
        return
    if step["type"] != "Sequence":
        yield step
    for inner in (*step.get("normalizers", ()), *step.get("pretokenizers", ())):
        yield from _list_steps(inner)


def _keeps_length(step: Mapping[str, Any]) -> bool:
    if step["type"] == "Replace" and "String" in step["pattern"]:
        return len(step["pattern"]["String"].encode()) <= len(step["content"].encode())
    return step["type"] in KEEPING_NORMALISERS


def _keeps_text(step: Mapping[str, Any]) -> bool:
    cuts = step["type"] in ("Split", "Punctuation") and step["behavior"] != "Removed"
    return cuts or step["type"] in KEEPING_STEPS


def _covers_every_byte(model: Mapping[str, Any], writes_bytes: bool) -> bool:
    """Whether the model has a token for each byte, so that it drops none and joins none to an unknown word."""
    from tokenizers.pre_tokenizers import ByteLevel

    if model["type"] not in ("BPE", "Unigram") or model.get("dropout"):
        return False
    known = frozenset(model["vocab"] if model["type"] == "BPE" else [word for word, _ in model["vocab"]])
    if model.get("byte_fallback"):
        return known.issuperset(f"<0x{number:02X}>" for number in range(256))
    return model["type"] == "BPE" and writes_bytes and known.issuperset(ByteLevel.alphabet())
