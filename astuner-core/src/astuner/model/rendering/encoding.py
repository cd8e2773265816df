"""Text to token ids, special token by special token: the text between two of them is encoded once and cached."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from astuner.contract.schema import Ids


Encode = Callable[[str], "Ids"]
"""Returns the ids of a text."""
LONGEST_KEPT = 1 << 13
"""Longest part, in characters, whose ids are cached."""

PARTS_KEPT = 1 << 10
"""Number of cached parts, the common ones of prompts: a system prompt, a list of tools, an example."""

POSITIONAL = ("Metaspace", "Prepend")
"""Steps of a tokenizer that may treat the start of a text unlike the start of a part."""


class PartwiseEncoder:
    """Encodes as the tokenizer does.

    A tokenizer cuts a text at its special tokens before anything else, and encodes each part on its own; so the ids of a text are
    the ids of its parts. Where this does not hold (tokens that absorb the spaces around them, steps that look at the start
    of the text), a text is encoded whole.
    """

    def __init__(self, backend: Any, added: Mapping[int, Any]) -> None:
        """`backend` is a `tokenizers.Tokenizer`; `added` are the tokens added to its vocabulary, by id, with their flags."""
        self._backend = backend
        # Normalised tokens are found by the backend, in the parts between these.
        cutting = {token.content: number for number, token in added.items() if not token.normalized}
        self._ids: Mapping[str, int] = cutting if _cuts_cleanly(backend, added.values()) else {}
        longest_first = sorted(cutting, key=len, reverse=True)
        self._cut = re.compile(f"({'|'.join(map(re.escape, longest_first))})") if self._ids else None
        self._kept: Callable[[str], tuple[int, ...]] = lru_cache(PARTS_KEPT)(self._encode_whole)

    @property
    def in_parts(self) -> bool:
        """Whether the tokenizer encodes part by part."""
        return self._cut is not None

    def __call__(self, text: str) -> Ids:
        """Return the ids of a text, as a read-only array."""
        found: Sequence[int] = self._encode_whole(text) if self._cut is None else self._encode_parts(self._cut, text)
        ids = np.asarray(found, dtype=np.int32)
        ids.setflags(write=False)
        return ids

    def _encode_parts(self, cut: re.Pattern[str], text: str) -> list[int]:
        ids: list[int] = []
        # Every second one is a special token.
        for place, part in enumerate(cut.split(text)):
            if place % 2:
                ids.append(self._ids[part])
            elif part:
                ids += self._kept(part) if len(part) <= LONGEST_KEPT else self._encode_whole(part)
        return ids

    def _encode_whole(self, text: str) -> tuple[int, ...]:
        if len(text) <= LONGEST_KEPT:
            return tuple(self._backend.encode(text, add_special_tokens=False).ids)
        # Only for a batch does the library let other threads run meanwhile; this one leaves out the places in the text.
        return tuple(self._backend.encode_batch_fast([text], add_special_tokens=False)[0].ids)


def _cuts_cleanly(backend: Any, added: Iterable[Any]) -> bool:
    flags = list(added)
    greedy = any(token.lstrip or token.rstrip or token.single_word for token in flags)
    if greedy or all(token.normalized for token in flags):
        return False
    if backend.truncation is not None or backend.padding is not None or getattr(backend, "encode_special_tokens", False):
        return False
    steps = [step for step in (backend.normalizer, backend.pre_tokenizer) if step is not None]
    return not any(name in POSITIONAL for step in steps for name in _collect_types(json.loads(step.__getstate__())))


def _collect_types(state: Any) -> list[str]:
    """Return the types of a step and of its inner steps."""
    if isinstance(state, list):
        return [name for part in state for name in _collect_types(part)]
    if not isinstance(state, dict):
        return []
    own = [state["type"]] if isinstance(state.get("type"), str) else []
    return own + [name for part in state.values() for name in _collect_types(part)]


class LongText(Exception):
    """A text that takes too long to be encoded in an event loop."""
