"""The languages of prompts, their names, and detecting the language of a text."""

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
"""Share of Chinese characters from which a text is Chinese: one is worth several letters."""


def parse_language(name: str) -> Language:
    """Return the language of a name such as `eng` or `chi_sim`; raises `ValueError` for one without prompts."""
    found = _NAMES.get(name.strip().lower().replace("_cn", "-cn"))
    if found is None:
        raise ValueError(f"no prompts are written for the language '{name}'; there are en (eng) and zh (chi_sim, chi_tra)")
    return found


def detect_language(text: str, names: Sequence[str]) -> Language:
    """Return the language of a text among those named: the only one, or the one of its letters."""
    named = {parse_language(name) for name in names}
    if len(named) == 1:
        return named.pop()
    letters = [letter for letter in text if letter.isalpha()]
    return "zh" if sum(map(is_han, letters)) > _HAN_SHARE * len(letters) else "en"


def is_han(letter: str) -> bool:
    """Whether a character is a Chinese one."""
    return any(first <= letter <= last for first, last in _HAN)
