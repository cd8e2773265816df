"""Turning the ids of a run into text, with its model's tokenizer, if that is at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.kept_tokenizer import FILE


class StoredTokenizer:
    """The tokenizer of a run, loaded when the first ids are decoded; needs no torch."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens included."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))

    @property
    def file(self) -> Path:
        """Its `tokenizer.json`."""
        return self._file

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(self._file))


def find_tokenizer(directory: RunDirectory, config: Mapping[str, Any]) -> StoredTokenizer | None:
    """Return the tokenizer of a run; None if no file of it is left, or the library `tokenizers` is not installed."""
    from importlib.util import find_spec

    if find_spec("tokenizers") is None:
        return None
    return next((StoredTokenizer(file) for file in _list_places(directory, config) if file.is_file()), None)


def _list_places(directory: RunDirectory, config: Mapping[str, Any]) -> Iterator[Path]:
    yield directory.tokenizer / FILE
    for step in reversed(directory.list_saved_steps()):
        yield directory.checkpoint(step) / FILE
    path = config.get("model", {}).get("path")
    if isinstance(path, str):
        yield Path(path) / FILE
