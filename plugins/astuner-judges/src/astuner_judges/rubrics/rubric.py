"""Rubrics: themes with tips, as used, saved and edited."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain, count

from attrs import evolve, frozen

POSITION_BIAS = "position_bias"
"""A reserved component of rewards: not a name for themes."""

_NO_NAME = re.compile(r"[^\w]+")
_LONGEST_NAME = 40


@frozen(kw_only=True)
class Theme:
    """One criterion for answers."""

    name: str
    """Names its score among the components of a reward."""
    theme: str
    """What a good answer does, in a sentence."""
    tips: tuple[str, ...] = ()
    """In more detail; each was a separate rubric."""

    @property
    def text(self) -> str:
        """The theme as the LLM is shown it."""
        return "\n".join([self.theme, *(f"   - {tip}" for tip in self.tips)])


def build_themes(rubrics: Iterable[str]) -> tuple[Theme, ...]:
    """Return a theme for each rubric."""
    return tuple(Theme(name=f"rubric_{number}", theme=rubric) for number, rubric in enumerate(rubrics, start=1))


def make_names_distinct(themes: Iterable[Theme]) -> tuple[Theme, ...]:
    """Return the themes with names that hold letters, digits and `_` only and are all different."""
    made: list[Theme] = []
    for number, theme in enumerate(themes, start=1):
        name = _NO_NAME.sub("_", theme.name.strip().lower()).strip("_")[:_LONGEST_NAME] or f"theme_{number}"
        taken = {POSITION_BIAS, *(other.name for other in made)}
        numbered = (f"{name}_{more}" for more in count(number))
        made.append(evolve(theme, name=next(one for one in chain([name], numbered) if one not in taken)))
    return tuple(made)


def to_one_line(text: str) -> str:
    """Collapse white space to single spaces, as rubrics are compared and stored."""
    return " ".join(text.split())
