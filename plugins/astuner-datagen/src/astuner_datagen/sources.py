"""The split of each chunk, and the order of requests over chunks and samples."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

from astuner.contract.errors import DataError
from astuner.contract.schema import Task
from astuner_datagen.chunks import Chunk
from astuner_datagen.drafts import Source
from astuner_datagen.overlaps import find_overlaps


class Sources(Protocol):
    """Where the requests of a split come from."""

    def __call__(self, turn: int) -> Sequence[Source]:
        """Return the sources of a turn, from 0; every turn goes through all chunks or samples once."""
        ...


def split_chunks(chunks: Sequence[Chunk], share: float, *, validation: bool, train: bool) -> tuple[list[Chunk], list[Chunk]]:
    """Return the chunks of validation and of training, each in the order of its hash, which mixes documents.

    Validation takes the lowest hashes, so that a new document moves few old chunks, whose answers are paid for, and with each
    chunk those with the same content. If its share ends among those, the rest of them is left out of training. Each requested
    split gets at least one; raises `DataError` if there is none for training.
    """
    ordered = sorted(chunks, key=lambda chunk: chunk.hash)
    if not (validation and train):
        return (ordered if validation else [], ordered if train else [])
    if len(ordered) < 2:
        raise DataError(
            "the documents make one chunk, and training and validation share none: set document_reader.chunk_size to less, add "
            "documents, or set validation_task_num: 0"
        )
    count = min(max(round(share * len(ordered)), 1), len(ordered) - 1)
    alike = find_overlaps(ordered)
    validated = set(islice(_group_overlapping(ordered, alike), count))
    seen = validated.union(*(alike[one] for one in validated))
    train_chunks = [chunk for chunk in ordered if chunk.hash not in seen]
    if not train_chunks:
        raise DataError(
            f"training and validation share no passage, and each of the {len(ordered)} chunks that the documents make says "
            "something that one of validation says: keep one of the documents that say the same, set document_reader.chunk_size "
            "to less, or set validation_task_num: 0"
        )
    return [chunk for chunk in ordered if chunk.hash in validated], train_chunks


def _group_overlapping(ordered: Sequence[Chunk], alike: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Yield the hashes in their order, but each followed by all connected ones, the nearest first."""
    met: set[str] = set()
    for chunk in ordered:
        waiting = deque([chunk.hash])
        while waiting:
            one = waiting.popleft()
            if one not in met:
                met.add(one)
                yield one
                waiting.extend(sorted(alike[one]))


def from_chunks(chunks: Sequence[Chunk]) -> Sources:
    """Return sources for questions on chunks."""
    return lambda turn: [Source(chunk=chunk) for chunk in chunks]


def from_samples(samples: Sequence[Task], chunks: Sequence[Chunk]) -> Sources:
    """Return sources for tasks like samples: with chunks, each turn pairs every sample with a different chunk."""
    if not chunks:
        return lambda turn: [Source(sample=sample) for sample in samples]
    length = max(len(samples), len(chunks))

    def pair(turn: int) -> Sequence[Source]:
        return [
            Source(sample=samples[number % len(samples)], chunk=chunks[(number + turn) % len(chunks)]) for number in range(length)
        ]

    return pair
