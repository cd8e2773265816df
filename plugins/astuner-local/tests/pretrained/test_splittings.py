"""Texts are split by the rules that each family publishes, stated here again as regular expressions of another library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import regex
from attrs import evolve
from tokenizers.pre_tokenizers import ByteLevel
from transformers import GPT2Tokenizer, PreTrainedTokenizerFast, Qwen2Tokenizer

from astuner.contract.errors import UsageError
from astuner_local.pretrained.gguf_file import read_vocabulary
from astuner_local.pretrained.tokenizer import find_splitting, make_tokenizer, read_splittings

GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
PUBLISHED: dict[str, Sequence[str]] = {
    # llama.cpp, src/llama-vocab.cpp: each expression splits what the one before it has left. What none matches stays a piece.
    "gpt-2": [GPT_2],
    "smollm": [r"\p{N}", GPT_2],
    "starcoder": [r"\p{N}", GPT_2],
    "llama-bpe": [
        r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "qwen2": [
        r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
}
TEXTS = [
    "In 2024\n\n12 men  3 women",
    "a 12\n\n12  12   1234",
    "I don't, he'll; WE'VE it's Y'all",
    "def f(x):\n    return x**2 + 10\n\n\n\tif y1:  # 3",
    "   leading and trailing   ",
    "tabs\t\t7\r\n8\r\n\r\n9",
    "café naïve 日本語 ½ ٣ Ⅷ²",
    "1,234.56 $99 50% 2+2=4 the12the",
    "\n\n\n5\n \n6",
    "",
]


def _split(text: str, expressions: Sequence[str]) -> list[str]:
    pieces = [text]
    for expression in expressions:
        pieces = [part for piece in pieces for part in _split_once(piece, expression)]
    return [piece for piece in pieces if piece]


def _split_once(piece: str, expression: str) -> Iterator[str]:
    end = 0
    for match in regex.finditer(expression, piece):
        yield piece[end : match.start()]
        yield match[0]
        end = match.end()
    yield piece[end:]


def _spell(pieces: Sequence[str]) -> list[str]:
    letters = ByteLevel(add_prefix_space=False, use_regex=False)
    return ["".join(part for part, _ in letters.pre_tokenize_str(piece)) for piece in pieces]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_text_is_split_as_the_family_publishes(name: str, text: str) -> None:
    found = read_splittings()[name].make_pre_tokenizer().pre_tokenize_str(text)
    assert [piece for piece, _ in found] == _spell(_split(text, PUBLISHED[name]))


@pytest.mark.parametrize(("name", "theirs"), [("gpt-2", GPT2Tokenizer), ("qwen2", Qwen2Tokenizer)])
@pytest.mark.parametrize("text", [*TEXTS, "e\u0301 12"])
def test_ids_are_those_of_the_familys_own_class(
    name: str, theirs: type[PreTrainedTokenizerFast], text: str, make_gguf: Callable[..., Path]
) -> None:
    file = make_gguf(splitting=name)
    vocabulary = read_vocabulary(file)
    merges = [tuple(merge.split()) for merge in vocabulary.merges]
    own = theirs(vocab={token: number for number, token in enumerate(vocabulary.tokens)}, merges=merges)
    ids = make_tokenizer(vocabulary, find_splitting(name, file))(text, add_special_tokens=False)["input_ids"]
    assert ids == own(text, add_special_tokens=False)["input_ids"]


def test_digits_after_blanks_and_blank_lines_stay_apart_from_them(make_gguf: Callable[..., Path]) -> None:
    file = make_gguf()
    tokenizer = make_tokenizer(read_vocabulary(file), find_splitting("smollm", file))
    assert tokenizer.tokenize("a 12\n\n12  12") == ["a", "Ġ", "1", "2", "ĊĊ", "1", "2", "ĠĠ", "1", "2"]


def test_a_piece_that_is_a_token_needs_no_merges_only_where_the_family_says_so(make_gguf: Callable[..., Path]) -> None:
    file = make_gguf()
    vocabulary = read_vocabulary(file)
    without = evolve(vocabulary, merges=())
    tokenized = {name: make_tokenizer(without, find_splitting(name, file)).tokenize("the") for name in ("llama-bpe", "qwen2")}
    assert tokenized == {"llama-bpe": ["the"], "qwen2": ["t", "h", "e"]}


def test_marks_are_never_split_and_only_control_tokens_are_left_out_of_texts(make_gguf: Callable[..., Path]) -> None:
    file = make_gguf()
    tokenizer = make_tokenizer(read_vocabulary(file), find_splitting("smollm", file))
    ids = tokenizer("<|im_start|>the<think><|im_end|>", add_special_tokens=False)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["<|im_start|>", "the", "<think>", "<|im_end|>"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "the<think>"


@pytest.mark.parametrize(("name", "what"), [("viking", "splits texts as 'viking'"), ("", "does not name how texts are split")])
def test_an_unknown_rule_is_refused_with_the_known_ones(name: str, what: str) -> None:
    with pytest.raises(UsageError, match=rf"model\.gguf: {what} \(tokenizer\.ggml\.pre\); known: gpt-2, .*smollm, .*llama-bpe"):
        find_splitting(name, Path("model.gguf"))
