"""No silent no-op: every key that the user set is acted on by core or by the backbone, or is named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import translate
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from attrs import field, frozen

from astuner.contract.errors import Problem
from astuner.contract.protocols import BackboneTraits, EngineTraits
from astuner.contract.protocols.traits import read_traits
from astuner.settings.config.model import Config
from astuner.settings.config.places import ROOT, make_problem
from astuner.settings.config.schema_keys import read_core_keys, walk_schema
from astuner.settings.config.sections import COMPONENT_SECTIONS
from astuner.settings.config.structuring import get_converter
from astuner.settings.config.trees import flatten, get

if TYPE_CHECKING:
    from astuner.settings.config.alignment import Alignment
    from astuner.settings.config.loading import LoadedConfig

__all__ = ["Honour", "HonourTable", "check_honoured", "find_unaccounted_keys", "matches", "walk_schema"]


@frozen(kw_only=True)
class Honour:
    """What a backbone does with a key."""

    status: Literal["core", "backbone", "engine", "aligned", "inapplicable", "refused", "unaccounted"]
    """Core acts on it; the backbone does; the chosen engine does; it goes into the backbone's native configuration; it has no
    meaning there (a notice); setting it is an error with a reason; or nothing accounts for it, which is an error too."""
    reason: str = ""
    native: tuple[str, ...] = ()
    """The native keys that an aligned key goes to."""
    core_too: bool = False
    """Whether core acts on an aligned key as well: trainers too need the sampler's temperature."""

    @property
    def acted_on(self) -> bool:
        """Whether setting the key changes anything."""
        return self.status in ("core", "backbone", "engine", "aligned")


@frozen(kw_only=True)
class HonourTable:
    """A backbone's treatment of our keys. A pattern that names a section covers all its keys."""

    backbone: str
    honours: tuple[str, ...] = ()
    inapplicable: Mapping[str, str] = field(factory=dict)
    refuses: Mapping[str, str] = field(factory=dict)
    alignment: Alignment | None = None
    engine_honours: tuple[str, ...] = ()
    """Keys that the chosen engine acts on, whatever the backbone does."""

    @classmethod
    def of(cls, backbone: Any, name: str | None = None, engine: Any = None) -> HonourTable:
        """Read the table off a backbone's class and the class of the chosen engine; keys that neither mentions are refused."""
        traits = read_traits(backbone, BackboneTraits)
        return cls(
            engine_honours=read_engine_honours(engine, name or backbone.name),
            backbone=name or backbone.name,
            honours=traits.honours,
            inapplicable=traits.inapplicable,
            refuses=traits.refuses,
            alignment=traits.alignment,
        )

    def find_honour(self, key: str, sections: Iterable[str] = ()) -> Honour:
        """Return what happens to a key; `sections` are those of components that the run chose, whose options are honoured."""
        core = read_core_keys()
        if _match_any(key, self.engine_honours):
            return Honour(status="engine")
        # A key that the backbone names outright is left out even where core would act on it.
        for reasons, status in ((self.refuses, "refused"), (self.inapplicable, "inapplicable")):
            if key in reasons:
                return Honour(status=status, reason=reasons[key])  # type: ignore[arg-type]  # one of the two words above
        if self.alignment is not None and key in self.alignment.keys:
            core_too = _match_any(key, core.honoured)
            return Honour(status="aligned", native=self.alignment.find_native_keys(key), core_too=core_too)
        if _match_any(key, self.honours):
            return Honour(status="backbone")
        if _match_any(key, core.honoured) or _match_any(key, sections):
            return Honour(status="core")
        for named, status in (
            (self.refuses, "refused"),
            (self.inapplicable, "inapplicable"),
            (core.inapplicable, "inapplicable"),
            (core.refused, "refused"),
        ):
            if _match_any(key, named):
                reason = next(reason for pattern, reason in named.items() if matches(key, pattern))
                return Honour(status=status, reason=reason)  # type: ignore[arg-type]  # one of the words above
        return Honour(status="unaccounted", reason="nothing acts on this key")


def read_engine_honours(engine: Any, backbone: str) -> tuple[str, ...]:
    """Return the key patterns that an engine's class acts on under a backbone."""
    honours = read_traits(engine, EngineTraits).honours
    return honours.get(backbone, honours.get("*", ()))


def find_unaccounted_keys(backbone: Any) -> list[str]:
    """Return the keys of the schema that a backbone's class neither honours nor calls inapplicable nor refuses."""
    table = HonourTable.of(backbone)
    return [key for key in walk_schema() if table.find_honour(key).status == "unaccounted"]


def check_honoured(config: LoadedConfig, table: HonourTable) -> tuple[list[Problem], list[str]]:
    """Check the keys that the user changed from the default: return problems and notices."""
    problems: list[Problem] = []
    honours = _find_honours(config, table)
    for key, honour in honours.items():
        if not honour.acted_on and honour.status != "inapplicable":
            why = f": {honour.reason}" if honour.status == "refused" else ""
            message = f"the backbone '{table.backbone}' does not act on this key{why}. Remove it, or choose a backbone that does."
            problems.append(make_problem(f"{ROOT}.{key}", message, config.locate))
    return problems, [
        f"{', '.join(keys)} {'has' if len(keys) == 1 else 'have'} no effect with the backbone '{table.backbone}': {reason}."
        for reason, keys in _sort_idle_keys(honours).items()
    ]


def find_idle_keys(config: LoadedConfig, table: HonourTable) -> dict[str, list[str]]:
    """Return the keys that the user changed and that have no meaning for the backbone, by the reason."""
    return _sort_idle_keys(_find_honours(config, table))


def _find_honours(config: LoadedConfig, table: HonourTable) -> dict[str, Honour]:
    sections = list_chosen_sections(config)
    return {key: table.find_honour(key, sections) for key in sorted(find_changed_keys(config))}


def _sort_idle_keys(honours: Mapping[str, Honour]) -> dict[str, list[str]]:
    idle: dict[str, list[str]] = {}
    for key, honour in honours.items():
        if honour.status == "inapplicable":
            idle.setdefault(honour.reason, []).append(key)
    return idle


def find_changed_keys(config: LoadedConfig) -> frozenset[str]:
    """Return the keys that the user changed from the default."""
    defaults = _read_defaults()
    return frozenset({key for key in config.user_keys if key not in defaults or get(config.resolved, key) != defaults[key]})


@cache
def _read_defaults() -> Mapping[str, Any]:
    return flatten(get_converter().unstructure(Config()))


def format_idle_keys(keys: Iterable[str], given: frozenset[str], why: str) -> Iterator[str]:
    """Yield one notice naming those of the keys that were given."""
    named = [key for key in keys if key in given]
    if named:
        yield f"{', '.join(named)} {'has' if len(named) == 1 else 'have'} no effect: {why}."


def list_chosen_sections(config: LoadedConfig) -> tuple[str, ...]:
    """Return the sections of components that a configuration gives options to."""
    return tuple(f"{key}.{name}" for key in COMPONENT_SECTIONS for name in attrgetter(key)(config.config).sections)


def matches(key: str, pattern: str) -> bool:
    """Whether a shell pattern matches a dotted key or a section around it."""
    return _match_any(key, (pattern,))


def _match_any(key: str, patterns: Iterable[str]) -> bool:
    return _compile(tuple(patterns)).match(key) is not None


@cache
def _compile(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile what matches one of the patterns, or a key below one."""
    return re.compile("|".join([translate(whole) for one in patterns for whole in (one, f"{one}.*")]) or r"(?!)")
