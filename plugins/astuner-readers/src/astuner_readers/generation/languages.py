"""The languages that prompts are written in, their names, and which of them a text is in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

Language = Literal["en", "zh"]

_NAMES: Mapping[str, Language] = {
    "en": "en",
    "eng": "en",
    "english": "en",
    "zh": "zh",
    "zho": "zh",
    "chi": "zh",
    "zh-cn": "zh",
    "zh-tw": "zh",
    "chi_sim": "zh",
    "chi_tra": "zh",
    "chinese": "zh",
}
_HAN = (("\u3400", "\u4dbf"), ("\u4e00", "\u9fff"), ("\uf900", "\ufaff"))
_HAN_SHARE = 0.2
"""Of the letters of a text, from which on it is Chinese: a character says as much as several letters."""


def parse_language(name: str) -> Language:
    """Return the language of a name such as `eng` or `chi_sim`; raises `ValueError` for one that there are no prompts in."""
    found = _NAMES.get(name.strip().lower().replace("_cn", "-cn"))
    if found is None:
        raise ValueError(f"no prompts are written for the language '{name}'; there are en (eng) and zh (chi_sim, chi_tra)")
    return found


def detect_language(text: str, names: Sequence[str]) -> Language:
    """Return the language of a text among those named: the only one, or what its letters say."""
    named = {parse_language(name) for name in names}
    if len(named) == 1:
        return named.pop()
    letters = [letter for letter in text if letter.isalpha()]
    return "zh" if sum(map(is_han, letters)) > _HAN_SHARE * len(letters) else "en"


def is_han(letter: str) -> bool:
    """Whether a character is a Chinese one."""
    return any(first <= letter <= last for first, last in _HAN)
