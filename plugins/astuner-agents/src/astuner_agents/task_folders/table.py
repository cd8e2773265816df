"""Typed values out of a TOML or YAML file, with the file and the key in every error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from astuner.contract.errors import DataError


@frozen
class Table:
    """A section of a file."""

    file: Path
    values: Mapping[str, Any]
    key: str = ""
    """Its dotted path in the file; empty for the whole file."""

    def section(self, name: str) -> Table:
        """Return a section; an empty one if it is missing."""
        found = self.values.get(name)
        if found is None:
            found = {}
        if not isinstance(found, Mapping):
            raise self.blame(name, f"must be a section, not {found!r:.80}")
        return Table(self.file, found, self._path(name))

    def text(self, name: str) -> str | None:
        """Return a text that is not empty, or None."""
        found = self.values.get(name)
        if found is not None and (not isinstance(found, str) or not found.strip()):
            raise self.blame(name, f"must be a text, not {found!r:.80}")
        return found

    def number(self, name: str, default: float | None = None) -> float | None:
        """Return a number that is not negative."""
        found = self.values.get(name)
        if found is None:
            return default
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < float("inf"):
            raise self.blame(name, f"must be a number of at least 0, not {found!r:.80}")
        return float(found)

    def whole(self, name: str) -> int | None:
        """Return a whole number that is not negative, or None."""
        found = self.values.get(name)
        if found is not None and (isinstance(found, bool) or not isinstance(found, int) or found < 0):
            raise self.blame(name, f"must be a whole number of at least 0, not {found!r:.80}")
        return found

    def choice(self, name: str, right: tuple[str, ...]) -> str | None:
        """Return one of several words, or None."""
        found = self.values.get(name)
        if found is not None and found not in right:
            raise self.blame(name, f"must be one of {', '.join(right)}, not {found!r:.80}")
        return found

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        found = self.values.get(name)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise self.blame(name, f"must be a list of texts, not {found!r:.80}")
        return found

    def variables(self, name: str) -> dict[str, str]:
        """Return environment variables by name."""
        found = self.values.get(name)
        if found is None:
            return {}
        if not isinstance(found, Mapping) or not all(isinstance(value, str) for value in found.values()):
            raise self.blame(name, f"must be texts by name, not {found!r:.80}")
        return dict(found)

    def blame(self, name: str, text: str) -> DataError:
        """Return the error for a key."""
        return DataError(f"{self.file}: {self._path(name)}: {text}")

    def _path(self, name: str) -> str:
        return f"{self.key}.{name}" if self.key else name
