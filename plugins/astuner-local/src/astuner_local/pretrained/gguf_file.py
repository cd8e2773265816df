"""What a GGUF file says of its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from astuner.contract.errors import UsageError

CONTROL, USER_DEFINED = 3, 4
"""Types of tokens that are never split: marks of the template, and texts such as `<think>`."""


@frozen(kw_only=True)
class Vocabulary:
    """A byte-level BPE vocabulary."""

    tokens: Sequence[str]
    types: Sequence[int]
    merges: Sequence[str]
    """Pairs, separated by a space, the first merge first."""
    splitting: str
    """Name of the rule by which a text is split."""
    template: str
    """The chat template, in Jinja."""
    begin: int | None
    """Id of the token that begins a text; None if the file says not to add one."""
    named: dict[str, int]
    """Ids of `bos_token`, `eos_token`, `unk_token` and `pad_token`, where the file has them."""
    ends: tuple[int, ...]
    """Ids of the tokens that end an answer, the end of the text first."""
    context: int | None
    """Longest sequence of the model, in tokens."""


def read_vocabulary(file: Path) -> Vocabulary:
    """Read it; raises `UsageError` for a file that is not GGUF, and for a vocabulary of another kind."""
    from gguf import GGUFReader

    try:
        found = GGUFReader(file)
    # What the reader raises for other files: the wrong magic, or whatever its arrays make of the bytes.
    except (ValueError, IndexError, OverflowError, KeyError) as error:
        raise UsageError(f"{file}: is not a whole GGUF file: {error}") from error

    def read(key: str, default: Any = None) -> Any:
        field = found.fields.get(key)
        return default if field is None else field.contents()

    kind = read("tokenizer.ggml.model")
    if kind != "gpt2":
        raise UsageError(f"{file}: has a tokenizer of kind {kind!r}; only byte-level BPE ('gpt2') is converted")
    if not read("tokenizer.chat_template"):
        raise UsageError(f"{file}: has no chat template, which agents need; take the instruct version of this model")
    ids = {f"{one}_token": read(f"tokenizer.ggml.{key}_token_id") for one, key in _NAMED.items()}
    named = {one: number for one, number in ids.items() if number is not None}
    if "eos_token" not in named:
        raise UsageError(f"{file}: names no token that ends an answer (tokenizer.ggml.eos_token_id)")
    ends = dict.fromkeys((named["eos_token"], read("tokenizer.ggml.eot_token_id", named["eos_token"])))
    return Vocabulary(
        tokens=read("tokenizer.ggml.tokens"),
        types=read("tokenizer.ggml.token_type", ()),
        merges=read("tokenizer.ggml.merges", ()),
        splitting=read("tokenizer.ggml.pre", ""),
        template=read("tokenizer.chat_template"),
        begin=named.get("bos_token") if read("tokenizer.ggml.add_bos_token", False) else None,
        named=named,
        ends=tuple(ends),
        context=read(f"{read('general.architecture')}.context_length"),
    )


_NAMED = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
