"""What was changed in handed-over values: counted, and reported once for each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import frozen

from astuner.contract.plain_values import make_plain


@frozen
class Change:
    """A value that is not stored as it was given."""

    place: str
    """For example `WorkflowOutput.metadata['image']`."""
    problem: str
    """What is wrong with the value, as a verb with its object."""
    outcome: str
    """What becomes of the value, in a clause."""


class ChangeCounts:
    """Counts the changes in the episodes of a run."""

    def __init__(self) -> None:
        self._counts: Counter[Change] = Counter()
        self._notified: set[Change] = set()

    def add(self, changes: Iterable[Change]) -> None:
        """Count the changes of one episode."""
        self._counts.update(dict.fromkeys(changes).keys())

    def take_notices(self) -> Iterator[str]:
        """Yield a notice for each change that has none yet."""
        for change, count in self._counts.items():
            if change not in self._notified:
                self._notified.add(change)
                yield f"{change.place} {change.problem} in {count} episode{'s' * (count != 1)}: {change.outcome}"


def make_mapping_plain(mapping: Mapping[Any, Any], place: str) -> tuple[dict[str, Any], list[Change]]:
    """Return a mapping as it will be read back from JSON, and what had to be changed in the value of each key."""
    found: dict[str, Any] = {}
    changes: list[Change] = []
    for key, value in mapping.items():
        plain = make_plain({key: value})
        found.update(plain.value)
        where = f"{place}[{next(iter(plain.value))!r}]"
        if plain.mended:
            changes.append(Change(where, "holds text that is not valid Unicode", "each lone surrogate became U+FFFD"))
        if plain.replaced is not None:
            changes.append(
                Change(where, f"holds {plain.replaced}, which is not a JSON value,", "judges and the run store get its text")
            )
    return found, changes
