"""Prompts as files, with named slots that are checked before the first request."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Literal

from attrs import field, frozen

from astuner.contract.errors import DataError

Language = Literal["en", "zh"]

_SLOT = re.compile(r"\{\{(\w+)\}\}")
_SECTION = re.compile(r"\{\{#(\w+)\}\}\n?(.*?)\{\{/\1\}\}\n?", re.DOTALL)
_MARK = re.compile(r"\{\{[#/]?(\w+)\}\}")
_SECTION_MARK = re.compile(r"\{\{[#/]\w+\}\}")


@frozen
class Prompt:
    """A text with slots `{{name}}`, and sections `{{#name}}…{{/name}}` that are left out if the slot is empty."""

    text: str = field(repr=False)
    source: str
    """The file it comes from, for messages."""
    version: str = ""
    """Name, language and a digest of the file, as in `knowledge.en@1f0c2a9b`, for records of what was asked."""

    @property
    def slots(self) -> frozenset[str]:
        """The names in it."""
        return frozenset(_MARK.findall(self.text))

    def fill(self, slots: Mapping[str, str]) -> str:
        """Return the text with its slots filled; a missing value raises `ValueError`, further ones are not used.

        Values go in as they are: a slot inside a value is not filled.
        """
        missing = self.slots - slots.keys()
        if missing:
            raise ValueError(f"{self.source}: no value for {_list(missing)}; there are {_list(slots)}")
        shown = _resolve_sections(self.text, lambda name: bool(slots[name]))
        return _SLOT.sub(lambda found: slots[found[1]], shown)


@cache
def load_prompt(package: str, name: str, language: Language) -> Prompt:
    """Return the prompt in `prompts/{name}.{language}.txt` of a package."""
    file = files(package).joinpath("prompts", f"{name}.{language}.txt")
    text = file.read_text(encoding="utf-8")
    digest = blake2b(text.encode(), digest_size=4).hexdigest()
    return Prompt(text.strip(), str(file), version=f"{name}.{language}@{digest}")


def fill_prompt(package: str, name: str, language: Language, **slots: str) -> str:
    """Return the text of such a prompt with its slots filled; raises `ValueError` if they are not the slots of the file."""
    template = load_prompt(package, name, language)
    unknown = slots.keys() - template.slots
    if unknown:
        raise ValueError(f"{template.source}: has no slot {_list(unknown)}; there are {_list(template.slots)}")
    return template.fill(slots)


def load_user_prompt(file: Path, key: str, *, required: Collection[str], known: Collection[str]) -> Prompt:
    """Return a user's prompt; raises `DataError`, naming the key of the YAML, if it cannot be read or filled."""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{key}: {file}: cannot be read as text in UTF-8: {error}") from error
    template = Prompt(text, str(file))
    slots = ", ".join(f"{{{{{name}}}}}" for name in known)
    unknown, missing = template.slots - set(known), set(required) - set(_SLOT.findall(text))
    if unknown:
        raise DataError(f"{key}: {file}: no such slot: {_list(unknown)}; there are {slots}")
    if missing:
        raise DataError(f"{key}: {file}: lacks the slot {_list(missing)}, without which nothing is judged; there are {slots}")
    if _SECTION_MARK.search(_resolve_sections(text, lambda name: True)):
        raise DataError(f"{key}: {file}: every {{{{#name}}}} needs its {{{{/name}}}}, and one of them stands alone")
    return template


def _resolve_sections(text: str, is_shown: Callable[[str], bool]) -> str:
    """Return the text with its sections unwrapped or left out, from the outermost inwards."""
    while (unfolded := _SECTION.sub(lambda found: found[2] if is_shown(found[1]) else "", text)) != text:
        text = unfolded
    return text


def _list(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"
