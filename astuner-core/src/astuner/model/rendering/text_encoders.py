"""Encoding with a limit: of the time that one text may take, or of the tokens that it may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from astuner.contract.schema import Ids

Encode = Callable[[str], "Ids"]
"""Returns the ids of a text."""


class LongText(Exception):
    """A text that takes too long to be encoded in an event loop."""


class TooManyTokens(Exception):
    """A text that has more tokens than fit, recognised before all of it was encoded."""

    def __init__(self, at_least: int) -> None:
        """`at_least` is a number of tokens that the text certainly has."""
        super().__init__(at_least)
        self.at_least = at_least
