from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_datagen.chunks import cut_chunks, drop_repeats, find_spans
from astuner_datagen.documents import Document
from astuner_datagen.sentences import find_paragraphs, find_sentences

TEXTS = st.one_of(
    st.text(max_size=400),
    st.text(alphabet="ab .!?。！？”\n\t", max_size=400),
    st.lists(
        st.sampled_from(["One fact.", " Dr. Who", "\n\n", "他说：“好！”", "然后走了。", " e.g. this", "x" * 70]), max_size=30
    ).map("".join),
)
WAYS: st.SearchStrategy[Literal["sentence", "paragraph", "character"]] = st.sampled_from(["sentence", "paragraph", "character"])


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in find_sentences(text)]


@given(text=TEXTS, size=st.integers(1, 80), way=WAYS)
def test_chunks_are_the_text_and_none_is_too_long(
    text: str, size: int, way: Literal["sentence", "paragraph", "character"]
) -> None:
    found = list(find_spans(text, size, way))
    assert "".join(text[start:end] for start, end in found) == text
    assert all(0 < end - start <= size for start, end in found)


@given(text=TEXTS, way=WAYS)
def test_each_chunk_stands_where_it_says(text: str, way: Literal["sentence", "paragraph", "character"]) -> None:
    document = Document(name="a.txt", sha256="0", text=text)
    found = cut_chunks(document, 60, way)
    assert all(document.text[chunk.start : chunk.end] == chunk.text for chunk in found)
    assert sum(len(chunk.text.split()) > 0 for chunk in found) == len(found)


@given(text=TEXTS)
def test_sentences_and_paragraphs_lose_nothing(text: str) -> None:
    assert "".join(cut(text)) == text
    assert "".join(text[start:end] for start, end in find_paragraphs(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It works. So does this! Or not?", ["It works. ", "So does this! ", "Or not?"]),
        ("Dr. Who met Mr. A. Smith, i.e. him. He left.", ["Dr. Who met Mr. A. Smith, i.e. him. ", "He left."]),
        ("It costs 3.50 at www.example.com today. Yes.", ["It costs 3.50 at www.example.com today. ", "Yes."]),
        ('He said "Go." Then he went.', ['He said "Go." ', "Then he went."]),
        ("今天下雨。他说：“走吧！”我们走了？是的", ["今天下雨。", "他说：“走吧！”", "我们走了？", "是的"]),
        ("A title\n\nA text that begins", ["A title\n\n", "A text that begins"]),
    ],
)
def test_sentences_end_where_a_reader_says(text: str, expected: list[str]) -> None:
    assert cut(text) == expected


def test_a_chunk_ends_with_a_sentence_where_one_fits() -> None:
    text = "First fact here. Second fact here. " + "Long " * 20 + "end. Last fact."
    chunks = [text[start:end] for start, end in find_spans(text, 40, "sentence")]
    assert chunks[0] == "First fact here. Second fact here. "
    assert all(len(chunk) <= 40 for chunk in chunks)
    assert chunks[-1].endswith("Last fact.")


def test_a_long_sentence_is_cut_between_words() -> None:
    text = "word " * 30
    assert all(text[start:end].endswith("word ") for start, end in find_spans(text, 32, "sentence"))


def test_pages_are_those_that_a_chunk_lies_on() -> None:
    document = Document(name="a.pdf", sha256="0", text="aaaa bbbb cccc ", page_starts=(0, 5, 10))
    assert [chunk.pages for chunk in cut_chunks(document, 5, "character")] == [(1, 1), (2, 2), (3, 3)]
    assert [chunk.pages for chunk in cut_chunks(document, 15, "character")] == [(1, 3)]
    assert cut_chunks(Document(name="a.txt", sha256="0", text="aaaa"), 5, "character")[0].pages is None


def test_the_same_passage_is_one_chunk_however_its_lines_are_broken() -> None:
    one, other = (Document(name=name, sha256="0", text=text) for name, text in (("a", "the same\ntext"), ("b", "the  same text")))
    assert [
        chunk.document.name for chunk in drop_repeats([*cut_chunks(one, 50, "sentence"), *cut_chunks(other, 50, "sentence")])
    ] == ["a"]
