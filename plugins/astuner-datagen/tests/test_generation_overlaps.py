"""Documents that say the same: no passage is for validation and for training, wherever the chunks end."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.errors import DataError
from astuner_datagen.chunks import Chunk, cut_chunks, drop_repeats
from astuner_datagen.documents import Document
from astuner_datagen.sources import split_chunks

Splits = tuple[list[Chunk], list[Chunk]]
FACT = re.compile(r"The \w+ of \w+ is \w+\.")


def chunked(*texts: str, size: int = 500, split_by: Literal["sentence", "character"] = "sentence") -> list[Chunk]:
    documents = [Document(name=f"v{number}.md", sha256="0", text=text) for number, text in enumerate(texts)]
    return drop_repeats([chunk for document in documents for chunk in cut_chunks(document, size, split_by)])


def split(chunks: Sequence[Chunk], share: float = 0.3) -> Splits:
    return split_chunks(chunks, share, validation=True, train=True)


def collect_facts(chunks: Sequence[Chunk]) -> set[str]:
    return {fact for chunk in chunks for fact in FACT.findall(chunk.text)}


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.9])
def test_no_passage_of_two_versions_is_on_both_sides(facts: Callable[..., str], share: float) -> None:
    first = facts(112)
    chunks = chunked(first, f"A sentence that stands in front. {first}")
    validation, train = split(chunks, share)
    assert not collect_facts(validation) & collect_facts(train)
    assert len(validation) == round(share * len(chunks))
    # They all hang together, and only those next to validation's are lost to training.
    assert len(chunks) - len(validation) - len(train) <= 5


def test_a_list_without_full_stops_is_told_apart_by_its_lines(facts: Callable[..., str]) -> None:
    lines = [f"- {fact[:-1]}" for fact in FACT.findall(facts(60))]
    validation, train = split(chunked("\n".join(lines), "\n".join(["- one that stands before all of them", *lines])))
    shown = [{line for chunk in side for line in chunk.text.splitlines() if line in lines} for side in (validation, train)]
    assert all(shown)
    assert not shown[0] & shown[1]


@given(st.integers(2, 40), st.integers(2, 40), st.floats(0.01, 0.9))
def test_documents_that_share_nothing_are_split_by_the_hashes_alone(one: int, other: int, share: float) -> None:
    texts = (
        "".join(f"The fact number {number} of the document {name}. " for number in range(many))
        for name, many in (("a", one), ("b", other))
    )
    chunks = sorted(chunked(*texts, size=50), key=lambda chunk: chunk.hash)
    count = min(max(round(share * len(chunks)), 1), len(chunks) - 1)
    assert split(chunks, share) == (chunks[:count], chunks[count:])


@pytest.mark.parametrize("split_by", ["sentence", "character"])
def test_what_one_document_repeats_is_no_passage(facts: Callable[..., str], split_by: Literal["sentence", "character"]) -> None:
    header = "Handbook of the company, for internal use only.\n\n"
    texts = ["".join(header + facts(6, seed=seed) for seed in range(first, first + 10)) for first in (0, 20)]
    chunks = chunked(*texts, split_by=split_by)
    assert sum(map(len, split(chunks))) == len(chunks)


def test_a_notice_that_very_many_documents_bear_is_no_passage(facts: Callable[..., str]) -> None:
    chunks = chunked(*(f"{facts(3, seed=seed)}Written by the department of records.\n" for seed in range(11)), size=1000)
    assert sum(map(len, split(chunks))) == len(chunks)


def test_where_nothing_is_left_for_training_it_is_said(facts: Callable[..., str]) -> None:
    chunks = chunked(facts(4), f"A sentence that stands in front. {facts(4)}", size=1000)
    with pytest.raises(DataError, match=r"each of the 2 chunks .* validation_task_num: 0"):
        split(chunks)
    assert split_chunks(chunks, 0.3, validation=False, train=True)[1] == sorted(chunks, key=lambda chunk: chunk.hash)
