"""What a diagnosis consists of: evidence for a symptom, and what to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import asdict, field, frozen

Number = float | int | str


@frozen(kw_only=True)
class Evidence:
    """What a check has found in a run: it fills in the texts of its rule."""

    numbers: Mapping[str, Number]
    """By name, as the message of the rule uses them."""
    episodes: Sequence[str] = ()
    """Ids of episodes that show it, the best example first."""
    key: str | None = None
    """The key to change, where it depends on the run; otherwise that of the rule."""
    value: str | None = None
    """What to set it to, as in YAML; otherwise that of the rule."""


@frozen(kw_only=True)
class Finding:
    """A symptom of a run, with what shows it and what to do about it."""

    id: str
    symptom: str
    """As a title."""
    message: str
    """The numbers in a sentence."""
    numbers: Mapping[str, Number]
    episodes: Sequence[str]
    """At most two ids."""
    key: str
    value: str
    advice: str
    """What changing the key does, and what else may help."""
    metrics: Sequence[str]
    """Those whose curves show it."""
    page: str
    """The page that explains it, with its section."""
    covers: Sequence[str] = field(default=(), repr=False)
    """Ids of findings that this one explains."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {name: value for name, value in asdict(self).items() if name != "covers"}
