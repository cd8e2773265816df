"""The configuration as users' code reads it: `config.ajet.rollout.num_repeat`, by attribute or by item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo

ROOTS = ("ajet", "astuner", "astune")
"""The names under which the configuration itself is found."""


class Settings(Mapping[str, Any]):
    """A section, read-only."""

    __slots__ = ("_place", "_values")

    def __init__(self, values: Mapping[str, Any], place: str = "config") -> None:
        """`place` is how it was reached, for messages."""
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_place", place)

    def __getitem__(self, key: str) -> Any:
        """Return a value, or a section as `Settings`; raises KeyError."""
        found = self._values[key]
        return Settings(found, f"{self._place}.{key}") if isinstance(found, Mapping) else found

    def __getattr__(self, name: str) -> Any:
        """Return a value or a section; raises AttributeError with the keys that there are."""
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            known = ", ".join(map(str, self._values)) or "none"
            raise AttributeError(f"{self._place} has no '{name}'. Its keys: {known}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse: the run has read its configuration already."""
        raise AttributeError(f"{self._place}.{name} cannot be set: the configuration of a run is read-only. Write it in the YAML")

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self._values)

    def __repr__(self) -> str:
        """Show where it is, not what is in it: it may hold secrets."""
        return f"<{self._place}: {', '.join(map(str, self._values))}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values."""
        return Settings, (self._values, self._place)


def read_settings(run_info: RunInfo | None) -> Settings:
    """Return the configuration of a run, its older spellings, the workflow's own sections, and the trainer's configuration.

    The workflow's sections are those of `astuner.workflow`, as roots: `config.frozen_lake`.
    """
    from astuner.settings.config.aliases import KEY_ALIASES
    from astuner.settings.config.model import Config
    from astuner.settings.config.structuring import make_converter

    tree: dict[str, Any] = make_converter().unstructure(Config() if run_info is None else run_info.config)
    for old, new in KEY_ALIASES.items():
        _copy_key(tree, new.split("."), old.split("."))
    # What was below the root of the file, and is no key of anybody.
    own = tree["workflow"].get(ROOTS[0])
    if isinstance(own, Mapping):
        tree = {**own, **tree}
    native = {} if run_info is None or not run_info.native else {run_info.backbone: run_info.native}
    return Settings({**native, **tree["workflow"], **dict.fromkeys(ROOTS, tree)})


def _copy_key(tree: dict[str, Any], source: list[str], target: list[str]) -> None:
    """Put a value under another path too, unless there is one already."""
    found: Any = tree
    for key in source:
        if not isinstance(found, Mapping) or key not in found:
            return
        found = found[key]
    section: Any = tree
    for key in target[:-1]:
        section = section.setdefault(key, {})
        if not isinstance(section, dict):
            return
    section.setdefault(target[-1], found)
