"""Encoding part by part gives the ids that the tokenizer gives for the whole text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from astuner.model.rendering.encoding import LONGEST_KEPT, PartwiseEncoder
from astuner_devkit.tokenizer import SPECIAL_TOKENS, tiny_tokenizer

WORDS = ["hello", " world", "\n", "  ", "é", "e\u0301", "中文", "🙂", "don't", "12345", "<|im", "_start|>", "tool_call>", "Word"]
PIECES = st.lists(st.sampled_from([*WORDS, *SPECIAL_TOKENS, "<extra>"]) | st.text(max_size=4), max_size=12).map("".join)


def trained(*, added: Any = (), normalizer: Any = None, pre_tokenizer: Any = None) -> Any:
    core = Tokenizer(models.BPE())
    core.normalizer = normalizer
    core.pre_tokenizer = pre_tokenizer or pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=400, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    core.train_from_iterator(["hello world, don't say hello world twice. Word words 12345"] * 3, trainer)
    core.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in SPECIAL_TOKENS])
    core.add_tokens(list(added))
    return core


BYTE_LEVEL = trained()
COMPOSED = trained(
    normalizer=normalizers.NFC(),
    pre_tokenizer=pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    ),
)
PREFIXED = trained(pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True))
NORMALIZED_TOKEN = trained(added=[AddedToken("<extra>", normalized=True)], normalizer=normalizers.Lowercase())
STRIPPING_TOKEN = trained(added=[AddedToken("<extra>", lstrip=True, rstrip=True, normalized=False)])
METASPACE = trained(pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first"))


def encoder(core: Any) -> PartwiseEncoder:
    return PartwiseEncoder(core, core.get_added_tokens_decoder())


@pytest.mark.parametrize("core", [BYTE_LEVEL, COMPOSED, PREFIXED, NORMALIZED_TOKEN, STRIPPING_TOKEN, METASPACE])
@given(text=PIECES)
def test_the_ids_are_those_of_the_whole_text(core: Any, text: str) -> None:
    assert core.encode(text, add_special_tokens=False).ids == encoder(core)(text).tolist()


@given(texts=st.lists(PIECES, max_size=4))
def test_what_was_encoded_before_changes_nothing(texts: list[str]) -> None:
    encode = encoder(BYTE_LEVEL)

    for text in [*texts, *texts]:
        assert BYTE_LEVEL.encode(text, add_special_tokens=False).ids == encode(text).tolist()


@pytest.mark.parametrize("core", [BYTE_LEVEL, COMPOSED, PREFIXED, NORMALIZED_TOKEN])
def test_tokenizers_that_treat_parts_alike_are_encoded_in_parts(core: Any) -> None:
    assert encoder(core).in_parts


@pytest.mark.parametrize("core", [STRIPPING_TOKEN, METASPACE])
def test_tokenizers_that_look_beyond_a_part_are_encoded_whole(core: Any) -> None:
    assert not encoder(core).in_parts


def test_a_long_part_is_encoded_and_not_kept() -> None:
    text = "hello world " * LONGEST_KEPT

    assert BYTE_LEVEL.encode(text).ids == encoder(BYTE_LEVEL)(text).tolist()


def test_the_ids_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        encoder(BYTE_LEVEL)("hello")[0] = 1


def test_the_tokenizer_of_the_test_kit_is_encoded_in_parts() -> None:
    tokenizer = tiny_tokenizer()

    assert PartwiseEncoder(tokenizer.backend_tokenizer, tokenizer.added_tokens_decoder).in_parts
