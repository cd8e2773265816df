"""Encoding in an event loop, where a text must not take long."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from astuner.contract.schema import Ids

Encode = Callable[[str], "Ids"]
"""Returns the ids of a text."""


class LongText(Exception):
    """A text that takes too long to be encoded in an event loop."""
