"""How a component says what it offers beyond its kind: one frozen record per kind, as the class attribute `traits`.

    class FolderReader:
        traits = ReaderTraits(lists_files=True)

        def list_files(self) -> Iterable[Path]: ...

The record is next to the Protocol of its kind. Every field has a default; a component without `traits` has all defaults. A plain
field is a fact that core reads. A field made by `promise` is a flag: the component has the methods that it names, and core calls
them. An instance whose traits depend on its options replaces those of its class: `self.traits = evolve(self.traits, …)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from attrs import field, fields
from attrs.validators import deep_iterable, deep_mapping, instance_of

from astuner.contract.errors import PluginError

Record = TypeVar("Record")

FLAG = instance_of(bool)
NAMES = deep_iterable(instance_of(str), instance_of(tuple))
REASONS = deep_mapping(instance_of(str), instance_of(str))

_METHODS, _ATTRIBUTES = "astuner.methods", "astuner.attributes"


def promise(*methods: str) -> Any:
    """Make a field of a record of traits: False, or that the component has these methods."""
    return field(default=False, validator=FLAG, metadata={_METHODS: methods})


def promise_attribute(name: str) -> Any:
    """Make a field of a record of traits: False, or that instances of the component have this attribute, maybe a property."""
    return field(default=False, validator=FLAG, metadata={_ATTRIBUTES: (name,)})


def read_traits(component: object, record: type[Record]) -> Record:
    """Return the traits of a component or of its class, or the defaults if it has none.

    Raises `PluginError` if its `traits` is anything but this record.
    """
    traits = getattr(component, "traits", None)
    if traits is None:
        return record()
    if isinstance(traits, record):
        return traits
    name = (component if isinstance(component, type) else type(component)).__qualname__
    raise PluginError(f"{name}.traits must be {record.__name__}(…), not {traits!r}")


def has_methods(component: object, *names: str) -> bool:
    """Return whether a component, of which nothing has to be a subclass, has these methods; a wrapper may pass them on."""
    return all(callable(getattr(component, name, None)) for name in names)


def find_faults(target: type[Any], record: type[Any], records: tuple[type[Any], ...]) -> Iterator[str]:
    """Yield how a class contradicts its traits; `records` are those of all kinds."""
    own = {name: value for base in reversed(target.__mro__) for name, value in vars(base).items()}
    for name, value in own.items():
        if name != "traits" and isinstance(value, records):
            yield f"`{name}` is never read; the attribute is called `traits`"
    traits = own.get("traits")
    if traits is not None and not isinstance(traits, record):
        yield f"`traits` must be {record.__name__}(…), not {traits!r}"
        return
    for flag in fields(record):
        methods, attributes = flag.metadata.get(_METHODS, ()), flag.metadata.get(_ATTRIBUTES, ())
        if traits is not None and getattr(traits, flag.name):
            yield from (
                f"its traits say {flag.name}=True, and it has no method `{name}`"
                for name in methods
                if "__getattr__" not in own and not has_methods(target, name)
            )
        else:
            unused = [name for name in (*methods, *attributes) if name in own]
            say = f"traits = {record.__name__}({flag.name}=True)"
            yield from (f"`{name}` is never used, unless its traits say so: {say}" for name in unused)


def find_options_class(component: object) -> type[Any] | None:
    """Return the attrs class that the options of a component are structured into; None if it takes no options."""
    options: type[Any] | None = getattr(component, "Options", None)
    return options
