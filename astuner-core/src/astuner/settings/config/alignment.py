"""From our keys to a trainer's own: a declarative table per backbone, and the native configuration that follows from it.

A backbone class that has a native configuration carries an `Alignment` as its attribute `alignment`. Every row says which of our
keys decide which native keys; arithmetic is a plain function. The result, with the user's raw native section laid over it, is
handed to the backbone as `run_info.native`, with the origin of each value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import Attribute, field, frozen

from astuner.settings.config.schema_keys import walk_schema
from astuner.settings.config.structure_errors import Fault, find_closest

__all__ = ["LEAVE", "Alignment", "Constant", "Import", "Row"]


class _Leave:
    def __repr__(self) -> str:
        return "LEAVE"


LEAVE: Final = _Leave()
"""What a row's function returns to leave the native default as it is."""


def _as_tuple(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _check_keys_exist(_: Any, attribute: Attribute[Any], value: tuple[str, ...]) -> None:
    schema = walk_schema()
    for key in value:
        if key not in schema:
            hint = find_closest(key, schema)
            raise ValueError(f"'{attribute.name}': there is no key {key!r}" + (f"; did you mean {hint!r}?" if hint else ""))


@frozen
class Row:
    """One line of the table: our keys decide native ones."""

    keys: tuple[str, ...] = field(converter=_as_tuple, validator=_check_keys_exist)
    """Dotted, without the root."""
    native: tuple[str, ...] = field(converter=_as_tuple)
    """Dotted native keys; each gets the value. Where it is a mapping, it is merged into what other rows put there."""
    value: Callable[..., Any] | None = field(default=None, kw_only=True)
    """From the values of `keys`, in their order and as plain YAML values, to the native one; None takes the one key's value.
    It may return `LEAVE`, and raises `ValueError` with a sentence for values that the trainer does not support."""
    only_if_set: bool = field(default=False, kw_only=True)
    """Apply the row only when the user set one of its keys: otherwise the native default stays."""

    def __attrs_post_init__(self) -> None:
        if self.value is None and len(self.keys) != 1:
            raise ValueError(f"{', '.join(self.keys)} -> {', '.join(self.native)}: several keys need a function")

    def compute(self, values: Mapping[str, Any]) -> Any:
        """Return the native value."""
        given = [values[key] for key in self.keys]
        return given[0] if self.value is None else self.value(*given)


@frozen
class Constant:
    """A native key that the backbone itself decides, whatever the user's keys say."""

    native: str
    value: Any
    reason: str


@frozen
class Import:
    """What native keys become in our keys where no row can be read backwards, for who imports a native configuration.

    A row without a function needs none: `buffer.batch_size: 96` is `data.train_batch_size: 96`.
    """

    native: tuple[str, ...] = field(converter=_as_tuple)
    """Dotted native keys, or sections, of which all keys are meant."""
    value: Callable[..., Mapping[str, Any] | None]
    """From the values of `native`, in their order, None for one that is not there, to the values of our keys, dotted and without
    the root. Nothing: our defaults do the same. None: it is for the row, or for the native section. It raises `ValueError` with a
    sentence that says what decides it here."""
    asks: int | None = field(default=None, kw_only=True)
    """How many of `native` it answers; the rest are only looked at. All, if not given."""
    note: Callable[..., str] | None = field(default=None, kw_only=True)
    """From the values of `native`, what does not come along, for the user to read; an empty text if everything does."""


def _find_no_faults(_: Mapping[str, Any]) -> tuple[Fault, ...]:
    return ()


@frozen(kw_only=True)
class Alignment:
    """The table of a backbone; made when its class is imported, where a row with a key that does not exist fails."""

    root: str
    """The root section of the YAML in which users write native keys, as in `local:`."""
    rows: tuple[Row, ...]
    constants: tuple[Constant, ...] = ()
    defaults: Callable[[], Mapping[str, Any]] | None = None
    """The native configuration as the trainer ships it, nested. With it every native key is known: others are refused with a
    suggestion, and `explain` prints the defaults too. It may import the trainer; it is called when a run is planned."""
    frozen: Mapping[str, str] = field(factory=dict)
    """Native keys (shell patterns) that a user's raw section may not set, with the reason: setting one is an error."""
    imports: tuple[Import, ...] = ()
    """What an imported native configuration makes of keys that no row can be read backwards for."""
    check: Callable[[Mapping[str, Any]], tuple[Fault, ...]] = _find_no_faults
    """What is wrong with a whole native configuration, by native path."""

    def __attrs_post_init__(self) -> None:
        counts = Counter(key for row in self.rows for key in row.native)
        counts.update(constant.native for constant in self.constants)
        twice = [key for key, count in counts.items() if count > 1]
        if twice:
            raise ValueError(f"more than one row decides {', '.join(twice)}")

    @property
    def keys(self) -> frozenset[str]:
        """Every key of astuner that a row reads."""
        return frozenset(key for row in self.rows for key in row.keys)

    def find_native_keys(self, key: str) -> tuple[str, ...]:
        """Return the native keys that one of our keys helps to decide."""
        return tuple(native for row in self.rows if key in row.keys for native in row.native)
