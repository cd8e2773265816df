"""The tokenizer of a GGUF file, with the splitting that the file names.

transformers' own loader of these files knows only some of the names, and splits the texts of the others as GPT-2 does.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from attrs import frozen
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from astuner.contract.errors import UsageError
from astuner_local.pretrained.gguf_file import CONTROL, USER_DEFINED, Vocabulary


@frozen(kw_only=True)
class Splitting:
    """How a family of tokenizers prepares a text for its merges."""

    names: tuple[str, ...]
    """Those of `tokenizer.ggml.pre`."""
    digits: bool = False
    """Whether each digit is first cut off."""
    regex: str = ""
    """What the pieces match; GPT-2's rule if empty."""
    nfc: bool = False
    """Whether accents are composed first."""
    whole_pieces: bool = False
    """Whether a piece that is a token is taken whole, merges or not."""

    def make_pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """Return it as the library's, which also spells bytes as letters."""
        first: list[pre_tokenizers.PreTokenizer] = []
        if self.digits:
            first.append(pre_tokenizers.Digits(individual_digits=True))
        if self.regex:
            first.append(pre_tokenizers.Split(Regex(self.regex), "isolated"))
        return pre_tokenizers.Sequence([*first, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not self.regex)])


@cache
def read_splittings() -> Mapping[str, Splitting]:
    """Return the rules by each of their names."""
    entries = tomllib.loads(files(__package__).joinpath("splittings.toml").read_text(encoding="utf-8")).values()
    return {name: Splitting(**{**entry, "names": tuple(entry["names"])}) for entry in entries for name in entry["names"]}


def find_splitting(name: str, file: Path) -> Splitting:
    """Return the rule that a file names; raises `UsageError` for unknown ones."""
    if (found := read_splittings().get(name)) is None:
        known = ", ".join(read_splittings())
        what = (
            f"splits texts as {name!r} (tokenizer.ggml.pre)" if name else "does not name how texts are split (tokenizer.ggml.pre)"
        )
        raise UsageError(
            f"{file}: {what}; known: {known}. With another rule the model would see other tokens than in its training"
        )
    return found


def make_tokenizer(vocabulary: Vocabulary, splitting: Splitting) -> PreTrainedTokenizerFast:
    """Return the tokenizer, with its chat template and its special tokens."""
    ids = {token: number for number, token in enumerate(vocabulary.tokens)}
    merges = [(left, right) for left, right in (merge.split(" ") for merge in vocabulary.merges)]
    bpe = Tokenizer(models.BPE(ids, merges, ignore_merges=splitting.whole_pieces))
    if splitting.nfc:
        bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = splitting.make_pre_tokenizer()
    bpe.decoder = decoders.ByteLevel()
    for number, (token, kind) in enumerate(zip(vocabulary.tokens, vocabulary.types, strict=False)):
        special = kind == CONTROL or number in vocabulary.named.values()
        if special or kind == USER_DEFINED:
            mark = AddedToken(token, special=special, normalized=False)
            (bpe.add_special_tokens if special else bpe.add_tokens)([mark])
    if vocabulary.begin is not None:
        begin = vocabulary.tokens[vocabulary.begin]
        bpe.post_processor = processors.TemplateProcessing(f"{begin} $A", None, [(begin, vocabulary.begin)])
    more: dict[str, Any] = {name: vocabulary.tokens[number] for name, number in vocabulary.named.items()}
    if vocabulary.context:
        more["model_max_length"] = vocabulary.context
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # transformers ships it without types
        tokenizer_object=bpe, clean_up_tokenization_spaces=False, **more
    )
    tokenizer.chat_template = vocabulary.template
    return tokenizer
