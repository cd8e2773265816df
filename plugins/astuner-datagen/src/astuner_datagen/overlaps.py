"""Finding chunks of several documents with the same content: versions of one text, cut at other places."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from astuner_datagen.chunks import Chunk
from astuner_datagen.sentences import find_sentences

_SHORTEST = 20
"""Least letters and digits of a significant sentence; shorter ones appear in unrelated texts."""
_MOST_DOCUMENTS = 10
"""Most documents with a sentence; in more it is a common notice."""
_NO_WORDS = re.compile(r"[\W_]+")


def find_overlaps(chunks: Sequence[Chunk]) -> Mapping[str, frozenset[str]]:
    """Return by the hash of each chunk those of other documents' chunks with which it shares a sentence or a line.

    A sentence in several chunks of a document does not count: it is a header, or a refrain.
    """
    holders: dict[str, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        for said in set(_find_statements(chunk.text)):
            holders[said].append(chunk)
    found: dict[str, set[str]] = {chunk.hash: set() for chunk in chunks}
    for holding in holders.values():
        if 1 < len(holding) == len({chunk.document.name for chunk in holding}) <= _MOST_DOCUMENTS:
            hashes = {chunk.hash for chunk in holding}
            for one in hashes:
                found[one] |= hashes - {one}
    return {one: frozenset(others) for one, others in found.items()}


def _find_statements(text: str) -> Iterator[str]:
    """Yield sentences and lines (of lists and tables, which have no full stops), reduced to letters and digits."""
    for part in (*text.splitlines(), *(text[start:end] for start, end in find_sentences(text))):
        plain = _NO_WORDS.sub("", part).casefold()
        if len(plain) >= _SHORTEST:
            yield plain
