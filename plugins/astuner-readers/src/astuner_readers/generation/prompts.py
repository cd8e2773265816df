"""Prompts as files, each in English and Chinese, with a version that is a digest of the file."""

from __future__ import annotations

import re
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from itertools import count

from attrs import field, frozen

from astuner_readers.generation.languages import Language

NAMES = ("knowledge", "augment", "answer", "compare")

_SECTION = re.compile(r"\{\{#(\w+)\}\}\n?(.*?)\{\{/\1\}\}\n?", re.DOTALL)
_SLOT = re.compile(r"\{\{(\w+)\}\}")


@frozen
class Prompt:
    """A text with slots `{{name}}`, and sections `{{#name}}…{{/name}}` that are left out where the slot is empty."""

    name: str
    """With language and version, as in `knowledge.en@1f0c2a9b`."""
    text: str = field(repr=False)

    def filled(self, **slots: str) -> str:
        """Return the text with its slots filled, each value as it is."""
        shown = _SECTION.sub(lambda found: found[2] if slots[found[1]] else "", self.text)
        return _SLOT.sub(lambda found: slots[found[1]], shown).strip()


@cache
def prompt(name: str, language: Language) -> Prompt:
    """Return the prompt in `prompts/{name}.{language}.txt`."""
    text = files(__package__).joinpath("prompts", f"{name}.{language}.txt").read_text(encoding="utf-8")
    return Prompt(f"{name}.{language}@{blake2b(text.encode(), digest_size=4).hexdigest()}", text)


def fenced(text: str, name: str) -> str:
    """Return a text between tags that it cannot close, since a digest of the text itself is part of them."""
    digests = (blake2b(f"{turn}:{text}".encode(), digest_size=6).hexdigest() for turn in count())
    identity = next(digest for digest in digests if digest not in text)
    return f"<{name}-{identity}>\n{text}\n</{name}-{identity}>"
