"""Which chunks belong to which split, and in which order requests go through chunks and samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from astuner.errors import DataError
from astuner.schema import Task
from astuner_readers.generation.chunks import Chunk
from astuner_readers.generation.drafts import Source


class Sources(Protocol):
    """Where the requests of a split come from."""

    def __call__(self, turn: int) -> Sequence[Source]:
        """Return the sources of a turn, from 0; every turn goes through all chunks or samples once."""
        ...


def split_chunks(chunks: Sequence[Chunk], share: float, *, validation: bool, train: bool) -> tuple[list[Chunk], list[Chunk]]:
    """Return the chunks of validation and of training, each in the order of its hash, which mixes documents.

    Validation takes the lowest hashes, so that a new document moves few of the old chunks, whose answers are then paid for; each
    split that is wanted gets one at least. Raises `DataError` where there is one chunk for two splits.
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
    return ordered[:count], ordered[count:]


def from_chunks(chunks: Sequence[Chunk]) -> Sources:
    """Return sources for questions on chunks."""
    return lambda turn: [Source(chunk=chunk) for chunk in chunks]


def from_samples(samples: Sequence[Task], chunks: Sequence[Chunk]) -> Sources:
    """Return sources for tasks like samples: with chunks, each turn pairs every sample and every chunk with another one."""
    if not chunks:
        return lambda turn: [Source(sample=sample) for sample in samples]
    length = max(len(samples), len(chunks))

    def paired(turn: int) -> Sequence[Source]:
        return [
            Source(sample=samples[number % len(samples)], chunk=chunks[(number + turn) % len(chunks)]) for number in range(length)
        ]

    return paired
