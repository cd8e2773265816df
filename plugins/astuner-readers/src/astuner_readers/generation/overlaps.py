"""Which chunks of several documents say the same: versions of one text, whose chunks end at other places."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from astuner_readers.generation.chunks import Chunk
from astuner_readers.generation.sentences import find_sentences

_SHORTEST = 20
"""Letters and digits of a sentence that tells something; shorter ones stand in texts that have nothing to do with each other."""
_MOST_DOCUMENTS = 10
"""That hold a sentence, beyond which it is a notice that all of them bear."""
_NO_WORDS = re.compile(r"[\W_]+")


def find_overlaps(chunks: Sequence[Chunk]) -> Mapping[str, frozenset[str]]:
    """Return by the hash of each chunk those of the chunks of other documents with which it shares a sentence or a line.

    One that a document has in several chunks counts for none: it is a header, or a refrain.
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
    """Yield sentences and lines (of lists and tables, which have no full stops) by their letters and digits alone."""
    for part in (*text.splitlines(), *(text[start:end] for start, end in find_sentences(text))):
        plain = _NO_WORDS.sub("", part).casefold()
        if len(plain) >= _SHORTEST:
            yield plain
