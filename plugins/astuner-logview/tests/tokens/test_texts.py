from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from astuner_devkit.tokenizer import tiny_tokenizer
from astuner_logview.tokens.texts import TokenTexts, read_pieces, read_token_texts


@cache
def byte_level() -> Any:
    return tiny_tokenizer().backend_tokenizer


@cache
def byte_fallback() -> Any:
    """A tokenizer as that of Llama 2: pieces with ▁ for blanks, and bytes for what it does not know."""
    words = ["<unk>", "▁", "a", "b", "▁a", "é"]
    vocabulary = {word: place for place, word in enumerate([*words, *(f"<0x{byte:02X}>" for byte in range(256))])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("▁", "a")], byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


@cache
def word_piece() -> Any:
    """One whose decoder looks at neighbours."""
    vocabulary = {word: place for place, word in enumerate(["[UNK]", "un", "##do", "it", "!"])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


@cache
def open_texts(make: Any) -> TokenTexts:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "tokenizer.json"
        make().save(str(file))
        texts = read_token_texts(file)
        texts.split([0])  # the library reads its file when it decodes first
        return texts


@pytest.mark.parametrize("make", [byte_level, byte_fallback], ids=["byte level", "byte fallback"])
@given(text=st.text(max_size=30))
def test_texts_of_tokens_are_the_text(make: Any, text: str) -> None:
    ids = make().encode(text, add_special_tokens=False).ids
    assert "".join(open_texts(make).split(ids)) == text


@pytest.mark.parametrize("make", [byte_level, word_piece], ids=["byte level", "word piece"])
@given(data=st.data())
def test_texts_of_any_ids_are_what_the_tokenizer_decodes(make: Any, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, make().get_vocab_size() - 1), max_size=20))
    texts = open_texts(make).split(ids)
    assert len(texts) == len(ids)
    # How many marks stand for broken bytes differs between decoders.
    assert "".join(texts).replace("\ufffd", "") == make().decode(ids, skip_special_tokens=False).replace("\ufffd", "")


def test_the_token_that_completes_a_character_has_it() -> None:
    texts = open_texts(byte_level)
    ids = byte_level().encode("🙂", add_special_tokens=False).ids
    assert len(ids) > 1
    assert texts.split(ids) == [*[""] * (len(ids) - 1), "🙂"]


def test_a_broken_character_ends_as_a_mark() -> None:
    ids = byte_level().encode("🙂", add_special_tokens=False).ids[:-1]
    assert open_texts(byte_level).split(ids)[-1] == "\ufffd"


@pytest.mark.parametrize("definition", [{}, {"model": {"vocab": 3}}, {"model": {"vocab": {}}, "decoder": {"type": "CTC"}}])
def test_an_unknown_decoder_has_no_pieces(definition: dict[str, Any]) -> None:
    assert read_pieces(json.loads(json.dumps(definition))) is None
