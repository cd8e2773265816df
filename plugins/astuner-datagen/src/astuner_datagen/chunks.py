"""Texts cut into chunks for an LLM: a partition of the text, without gaps or overlaps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Literal

from attrs import field, frozen

from astuner_datagen.documents import Document
from astuner_datagen.sentences import Span, find_paragraphs, find_sentences

SplitBy = Literal["sentence", "paragraph", "character"]


@frozen(kw_only=True)
class Chunk:
    """A part of a document."""

    document: Document
    start: int
    """In characters of the document's text."""
    end: int
    text: str = field(repr=False)
    hash: str
    """32 hex digits of the text with single spaces: line breaks do not change a passage's hash."""

    @property
    def place(self) -> str:
        """For messages, as in `guide.md[0:5120]`."""
        return f"{self.document.name}[{self.start}:{self.end}]"

    @property
    def pages(self) -> tuple[int, int] | None:
        """First and last page, from 1; None for a document without pages."""
        starts = self.document.page_starts
        return (bisect_right(starts, self.start), bisect_right(starts, max(self.start, self.end - 1))) if starts else None


def cut_chunks(document: Document, size: int, split_by: SplitBy) -> list[Chunk]:
    """Return the chunks of a document that hold more than space."""
    found = []
    for start, end in find_spans(document.text, size, split_by):
        text = document.text[start:end]
        plain = " ".join(text.split())
        if plain:
            digest = sha256(plain.encode()).hexdigest()[:32]
            found.append(Chunk(document=document, start=start, end=end, text=text, hash=digest))
    return found


def find_spans(text: str, size: int, split_by: SplitBy) -> Iterator[Span]:
    """Yield the spans of chunks: as many whole pieces as fit into `size` characters. Together they cover the text."""
    begin, reached = 0, 0
    for _, end in _find_pieces(text, size, split_by):
        if end - begin > size:
            yield begin, reached
            begin = reached
        reached = end
    if begin < reached:
        yield begin, reached


def _find_pieces(text: str, size: int, split_by: SplitBy) -> Iterator[Span]:
    """Yield the spans to keep whole, none longer than `size`."""
    if split_by == "character":
        yield from ((start, min(start + size, len(text))) for start in range(0, len(text), size))
        return
    for start, end in find_paragraphs(text) if split_by == "paragraph" else find_sentences(text):
        if end - start <= size:
            yield start, end
        elif split_by == "paragraph":
            for inner in find_sentences(text, start, end):
                yield from _cut(text, inner, size)
        else:
            yield from _cut(text, (start, end), size)


def _cut(text: str, span: Span, size: int) -> Iterator[Span]:
    """Yield the parts of a span, cut after the last space that fits; in the middle of a word if there is none."""
    start, end = span
    while end - start > size:
        cut = max(text.rfind(space, start + 1, start + size) for space in (" ", "\n", "\t")) + 1
        cut = cut if cut > start else start + size
        yield start, cut
        start = cut
    yield start, end


def drop_repeats(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return the first chunk of each text."""
    return list({chunk.hash: chunk for chunk in reversed(chunks)}.values())[::-1]
