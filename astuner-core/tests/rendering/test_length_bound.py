"""The bound on a text's tokens never exceeds their number, whatever the tokenizer does to the text."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

from astuner.model.rendering.length_bound import _PIECE, SHRINKING, find_length_bound
from astuner_devkit.tokenizer import tiny_tokenizer

BYTES = [f"<0x{number:02X}>" for number in range(256)]
CORPUS = ["hello world, don't say hello world twice.        Words 12345 中文 été ----------------"] * 3


def byte_level(normalizer: Any = None, added: Any = (), alphabet: Any = None) -> Any:
    core = Tokenizer(models.BPE())
    core.normalizer = normalizer
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    letters = pre_tokenizers.ByteLevel.alphabet() if alphabet is None else alphabet
    core.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=420, show_progress=False, initial_alphabet=letters))
    core.add_tokens(list(added))
    return core


def sentencepiece_bpe() -> Any:
    pieces = ["<unk>", *BYTES, "▁", "h", "e", "l", "o", "he", "ll", "▁he", "llo", "▁▁"]
    merges = [("h", "e"), ("l", "l"), ("▁", "he"), ("ll", "o"), ("▁", "▁")]
    model = models.BPE({word: number for number, word in enumerate(pieces)}, merges, unk_token="<unk>", byte_fallback=True)
    core = Tokenizer(model)
    core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return core


def sentencepiece_unigram() -> Any:
    pieces = [("<unk>", 0.0), *((word, -9.0) for word in BYTES), ("▁", -2.0), ("hello", -3.0), ("▁▁▁▁", -3.0), ("l", -4.0)]
    core = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    return core


def word_piece() -> Any:
    core = Tokenizer(models.WordPiece({"[UNK]": 0, "hello": 1, "##s": 2}, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return core


def without_bytes() -> Any:
    core = sentencepiece_bpe()
    core.model.byte_fallback, core.model.fuse_unk = False, True
    return core


def unigram_without_bytes() -> Any:
    return Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0)], unk_id=0))


def truncated() -> Any:
    core = byte_level()
    core.enable_truncation(4)
    return core


BOUNDED = {
    "byte level": byte_level(),
    "composed": byte_level(normalizers.NFC()),
    "with an added token": byte_level(normalizers.NFC(), [AddedToken("<|a long special token of its own|>", normalized=False)]),
    "sentencepiece": sentencepiece_bpe(),
    "unigram": sentencepiece_unigram(),
    "test kit": tiny_tokenizer().backend_tokenizer,
}
UNBOUNDED = {
    "WordPiece": (word_piece(), " " * 5000),
    "no byte tokens": (without_bytes(), "中" * 5000),
    "unknown words": (unigram_without_bytes(), "中" * 5000),
    "part of the bytes": (byte_level(alphabet=["h"]), "\x01" * 5000),
    "a token takes in spaces": (byte_level(added=[AddedToken("<x>", rstrip=True)]), "<x>" + " " * 5000),
    "accents are stripped": (byte_level(normalizers.StripAccents()), "\u0301" * 5000),
    "spaces are stripped": (byte_level(normalizers.Strip()), " " * 5000),
    "a word is replaced": (byte_level(normalizers.Replace("word", "")), "word" * 5000),
    "truncated": (truncated(), "hello" * 5000),
}
WORDS = [
    "hello",
    " world",
    "\n",
    " " * 40,
    "-" * 40,
    "é",
    "e\u0301",
    "中文",
    "🙂",
    "\u212a",
    "\u1112\u1161\u11ab",
    "<|a long special",
]
TEXTS = st.lists(st.sampled_from([*WORDS, " token of its own|>", "\x00"]) | st.text(max_size=6), max_size=20).map("".join)


def bound(core: Any) -> Any:
    return find_length_bound(core, core.get_added_tokens_decoder())


@pytest.mark.parametrize("kind", BOUNDED)
@given(text=TEXTS, times=st.integers(1, 40))
@example(text="\u212a", times=4000)
@example(text="\u1112\u1161\u11ab", times=_PIECE // 2)
@example(text="e" * (_PIECE - 1) + "\u03b1" + "\u0313\u0300\u0345", times=1)
def test_a_text_has_at_least_as_many_tokens_as_its_bound(kind: str, text: str, times: int) -> None:
    core = BOUNDED[kind]
    assert bound(core).count_at_least(text * times) <= len(core.encode(text * times, add_special_tokens=False).ids)


@pytest.mark.parametrize("kind", BOUNDED)
def test_the_bound_grows_with_the_text(kind: str) -> None:
    assert bound(BOUNDED[kind]).count_at_least("hello world " * 100_000) > 4000


@pytest.mark.parametrize("kind", UNBOUNDED)
def test_a_tokenizer_that_shortens_without_limit_has_no_bound(kind: str) -> None:
    core, text = UNBOUNDED[kind]
    assert len(core.encode(text, add_special_tokens=False).ids) < 10
    assert bound(core) is None


def test_composition_shortens_no_character_by_more_than_is_assumed() -> None:
    sources: dict[str, int] = {}
    for number in range(0x110000):
        if not 0xD800 <= number < 0xE000:
            parts = unicodedata.normalize("NFD", chr(number))
            if len(parts) == 1:
                sources[parts] = max(sources.get(parts, 0), len(chr(number).encode()))
            else:
                assert len(chr(number).encode()) <= len(parts.encode()), hex(number)
    for number in range(0x110000):
        if not 0xD800 <= number < 0xE000 and unicodedata.is_normalized("NFC", chr(number)):
            parts = unicodedata.normalize("NFD", chr(number))
            assert sum(sources[part] for part in parts) <= SHRINKING * len(chr(number).encode()), hex(number)
