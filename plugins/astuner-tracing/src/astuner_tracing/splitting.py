"""The rule that chooses validation tasks: the same traces are always split the same way."""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import ge, lt

from astuner_tracing.sources.json_spans import to_nanoseconds
from astuner_tracing.spool import Spool


def _is_time(instance: Split, attribute: Attribute[Any], value: str | None) -> None:
    if value is None:
        return
    try:
        datetime.fromisoformat(value)
    except ValueError as error:
        raise ValueError(f"a time such as 2026-11-20 or 2026-11-20T09:00:00+00:00 is needed, not {value!r}") from error
    if instance.fraction:
        raise ValueError("validation_fraction and validation_after are two rules; keep one")


@frozen(kw_only=True)
class Split:
    """The rule. Related tasks are never in both splits."""

    fraction: float = field(default=0.0, validator=[ge(0), lt(1)])
    after: str | None = field(default=None, validator=_is_time)
    by: Literal["conversation", "task"] = "conversation"

    def validates(self, key: str, last_time_ns: int) -> bool:
        """Whether a conversation with this first question and end time is for validation."""
        if self.after is not None:
            # By its last turn: no training task is later than the time.
            return last_time_ns >= to_nanoseconds(datetime.fromisoformat(self.after))
        digest = blake2b(f"validation {key}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") < self.fraction * 2**64

    def choose(self, spool: Spool) -> frozenset[str]:
        """Return the names of the conversations for validation."""
        if not self.fraction and self.after is None:
            return frozenset()
        conversations = spool.conversations()
        return frozenset(name for name, first, last in conversations if self.validates(spool.task(first).opening, last))
