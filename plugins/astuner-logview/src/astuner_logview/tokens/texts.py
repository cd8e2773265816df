"""The text of each token: joined, they are the text of the stream, and no character is split."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from astuner.model.rendering import TextStream
from astuner.runs.inspection import StoredTokenizer

BYTE = range(256)


class TokenTexts:
    """Decodes ids one by one. A token that ends inside a character is empty; the one that completes it has the character."""

    def __init__(self, tokenizer: StoredTokenizer, pieces: Mapping[int, bytes] | None) -> None:
        """`pieces` are the bytes of each token, if they do not depend on their neighbours."""
        self._tokenizer, self._pieces = tokenizer, pieces
        self._known: dict[int, str | None] = {}
        """The text of each token that was seen; None for one with a part of a character."""

    def split(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each of the ids of a whole stream."""
        if self._pieces is None:
            return _split_stream(self._tokenizer.decode, ids)
        pieces = self._pieces
        self._known.update((one, _decode_whole(pieces.get(one, b""))) for one in set(ids).difference(self._known))
        found = list(map(self._known.get, ids))
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # What follows a part of a character is decoded with it, until nothing is left of it.
        texts, is_open = [], False
        for place, text in enumerate(found):
            if text is None or is_open:
                text = decoder.decode(pieces.get(ids[place], b""))
                is_open = bool(decoder.getstate()[0])
            texts.append(text)
        if is_open:
            texts[-1] += decoder.decode(b"", final=True)
        return texts


def _decode_whole(piece: bytes) -> str | None:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return None


def _split_stream(decode: Callable[[Sequence[int]], str], ids: Sequence[int]) -> list[str]:
    stream = TextStream(decode)
    texts = [stream.feed([one]) for one in ids]
    if texts:
        texts[-1] += stream.finish()
    return texts


def read_token_texts(file: Path) -> TokenTexts:
    """Return the texts of a `tokenizer.json`; kept until the file changes."""
    found = file.stat()
    return _read_token_texts(file, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=4)
def _read_token_texts(file: Path, changed: int, size: int) -> TokenTexts:
    tokenizer = StoredTokenizer(file)
    return TokenTexts(tokenizer, read_pieces(json.loads(file.read_bytes())))


def read_pieces(definition: Mapping[str, Any]) -> dict[int, bytes] | None:
    """Return the bytes of each token; None for a tokenizer whose decoder looks at neighbours in a way that is not known."""
    kinds = _list_decoders(definition.get("decoder"))
    vocabulary = _read_vocabulary(definition.get("model") or {})
    if vocabulary is None:
        return None
    if kinds == ["ByteLevel"]:
        letters = _map_letters()
        pieces = {number: _encode_letters(text, letters) for text, number in vocabulary.items()}
    elif "ByteFallback" in kinds and set(kinds) <= {"Replace", "ByteFallback", "Fuse"}:
        pieces = {number: _read_fallback(text) for text, number in vocabulary.items()}
    else:
        return None
    added = {one["id"]: str(one["content"]).encode("utf-8", "replace") for one in definition.get("added_tokens") or ()}
    return {**pieces, **added}


def _list_decoders(decoder: Any) -> list[str]:
    if not isinstance(decoder, Mapping):
        return []
    if decoder.get("type") == "Sequence":
        return [kind for one in decoder.get("decoders") or () for kind in _list_decoders(one)]
    return [str(decoder.get("type"))]


def _read_vocabulary(model: Mapping[str, Any]) -> Mapping[str, int] | None:
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, Mapping):
        return vocabulary
    if isinstance(vocabulary, list):
        return {entry[0]: number for number, entry in enumerate(vocabulary)}
    return None


def _map_letters() -> dict[str, int]:
    """Return the byte that each letter of a byte-level vocabulary stands for (GPT-2's table)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in BYTE if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}


def _encode_letters(text: str, letters: Mapping[str, int]) -> bytes:
    try:
        return bytes([letters[letter] for letter in text])
    except KeyError:
        return text.encode("utf-8", "replace")


def _read_fallback(text: str) -> bytes:
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        try:
            return bytes([int(text[3:5], 16)])
        except ValueError:
            return text.encode("utf-8", "replace")
    return text.replace("▁", " ").encode("utf-8", "replace")
