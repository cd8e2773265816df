"""What is installed, and from where. Reads only `importlib.metadata`: listing imports no plugin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from itertools import groupby
from pathlib import Path

from attrs import field, frozen
from packaging.utils import canonicalize_name

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import Candidate
from astuner.settings.config.structure_errors import find_closest
from astuner.settings.plugins.core_commands import format_typed
from astuner.settings.plugins.kinds import GROUPS, add_article, parse_kind
from astuner.settings.plugins.requirements import Installed
from astuner.settings.plugins.specs import FORMS, ByName, ByPath, parse
from astuner.shared import install_hints
from astuner.shared.known_packages import read_known_packages

__all__ = ["Catalog"]


@frozen(kw_only=True)
class Catalog:
    """The components that the installed distributions offer."""

    _found: tuple[Candidate, ...] = field(default=(), alias="found")
    _disabled: tuple[Candidate, ...] = field(default=(), alias="disabled")

    @classmethod
    def discover(cls, disabled: Iterable[str] = (), *, kinds: Collection[str] = tuple(GROUPS)) -> Catalog:
        """Read the entry points of this process's `sys.path`.

        `disabled` names what is left out, as `name`, `dist/name` or the name of a whole distribution.
        """
        unwanted = {_normalise(text) for text in disabled}
        installed, everything = Installed(), entry_points()
        found = [
            _make_candidate(kind, entry, installed)
            for kind in map(parse_kind, kinds)
            if (group := GROUPS[kind]) is not None
            for entry in everything.select(group=group)
        ]
        found.sort(key=lambda candidate: (list(GROUPS).index(candidate.kind), candidate.name, candidate.dist or ""))
        keep, left_out = found, list[Candidate]()
        if unwanted:
            keep = [candidate for candidate in found if unwanted.isdisjoint(_list_names(candidate))]
            left_out = [candidate for candidate in found if not unwanted.isdisjoint(_list_names(candidate))]
        return cls(found=tuple(keep), disabled=tuple(left_out))

    def all(self) -> tuple[Candidate, ...]:
        """Return every component, ordered by kind and name."""
        return self._found

    def find_ineffective(self, disabled: Iterable[str]) -> list[str]:
        """Return the names in `disabled` that disable nothing."""
        left_out = {name for candidate in self._disabled for name in _list_names(candidate)}
        return [text for text in disabled if _normalise(text) not in left_out]

    def candidates(self, kind: str) -> tuple[Candidate, ...]:
        """Return the components of a kind, ordered by name."""
        kind = parse_kind(kind)
        return tuple([candidate for candidate in self._found if candidate.kind == kind])

    def offers(self, kind: str, name: str) -> bool:
        """Whether a component of a kind has this name, or this name with its distribution."""
        return any(name in (candidate.name, candidate.full_name) for candidate in self.candidates(kind))

    def map_spellings(self, kind: str, taken: Iterable[str] = ()) -> Mapping[str, Candidate]:
        """Return the components of a kind by what a user writes: `dist/name` where two offer one name, or it is taken."""
        candidates = self.candidates(kind)
        counts = Counter([*taken, *(candidate.name for candidate in candidates)])
        return {each.name if counts[each.name] == 1 else each.full_name: each for each in candidates}

    def find(self, kind: str, spec: str, *, config_dir: Path, key: str) -> Candidate:
        """Return the one component that `spec` names; raises `ConfigError` for none or several.

        Relative files start at `config_dir`; `key` is the configuration key that holds it.
        """
        kind = parse_kind(kind)
        try:
            place = parse(spec, config_dir)
        except ValueError as error:
            raise _make_error(key, f"{kind} {spec!r}: {error}") from error
        if isinstance(place, ByPath):
            return Candidate(kind=kind, name=spec, target=place.target, source="path", config_dir=config_dir.resolve())
        offered = [c for c in self.candidates(kind) if _matches(c, place)]
        if len(offered) == 1:
            return offered[0]
        if offered:
            both = ", ".join(f"{c.provider} ({c.target})" for c in offered)
            names = (format_typed(c.full_name) if kind == "command" else c.full_name for c in offered)
            ways = " or ".join(f"`{name}`" for name in names)
            raise _make_error(key, f"{kind} {spec!r} is offered by {len(offered)} distributions: {both}. Write {ways}")
        raise _make_error(key, *self._explain_unknown(kind, place, spec))

    def _explain_unknown(self, kind: str, place: ByName, spec: str) -> tuple[str, str | None]:
        nothing = f"no {kind} {spec!r}"
        if GROUPS[kind] is None:
            return f"{nothing}: {add_article(kind)} is given as `package.module:Class` or `./file.py:Class`", None
        for candidate in self._disabled:
            if candidate.kind == kind and _matches(candidate, place):
                return f"{kind} {spec!r} from {candidate.provider} is disabled by the configuration", None
        if place.dist is None and "." in place.name and kind != "command":
            module, _, name = place.name.rpartition(".")
            return f"{nothing}; for a class in a module write `{module}:{name}`", None
        remedy = _find_remedy(kind, place)
        installed = f"; installed: {self._format_installed(kind)}"
        if remedy:
            return f"{nothing}{installed}. {remedy}", None
        names = [*(c.name for c in self.candidates(kind)), *read_known_packages().names(kind)]
        if suggestion := find_closest(place.name, names):
            return f"{nothing}{installed}.", suggestion
        return f"{nothing}{installed}. Give {FORMS}", None

    def _format_installed(self, kind: str) -> str:
        def by_provider(candidate: Candidate) -> str:
            return candidate.provider

        offered = sorted(self.candidates(kind), key=by_provider)
        lists = [f"{', '.join(c.name for c in some)} ({provider})" for provider, some in groupby(offered, by_provider)]
        return "; ".join(lists) or "none"


def _make_candidate(kind: str, entry: EntryPoint, installed: Installed) -> Candidate:
    if entry.dist is None:
        # Only a hand-made entry point has none; those read from a distribution's metadata always do.
        return Candidate(kind=kind, name=entry.name, target=_format_target(entry))
    facts = installed.get_facts(entry.dist)
    extras = {canonicalize_name(extra) for extra in entry.extras} | (facts.extras & {canonicalize_name(entry.name)})
    missing = installed.find_unmet(facts, extras)
    brings = f"{facts.name}[{','.join(sorted(extras))}]" if extras else facts.name
    return Candidate(
        kind=kind,
        name=entry.name,
        target=_format_target(entry),
        dist=facts.name,
        version=facts.version,
        core_requirement=facts.core_requirement,
        missing=missing,
        remedy=install_hints.install_command(brings) if missing else None,
        shows_runs=kind == "command" and entry.name in facts.shows_runs,
    )


def _list_names(candidate: Candidate) -> set[str]:
    """Return the names of a component that `disabled` accepts."""
    return set(map(_normalise, (candidate.name, candidate.dist or "", candidate.full_name)))


def _format_target(entry: EntryPoint) -> str:
    return entry.value.partition("[")[0].strip().replace(" ", "")


def _matches(candidate: Candidate, place: ByName) -> bool:
    if place.dist is not None and _normalise(place.dist) != _normalise(candidate.dist or ""):
        return False
    return place.name == candidate.name


def _normalise(text: str) -> str:
    dist, slash, name = text.rpartition("/")
    return f"{canonicalize_name(dist)}/{name}" if slash else canonicalize_name(name)


def _find_remedy(kind: str, place: ByName) -> str | None:
    """Return what to install for a name that one of our packages offers."""
    command, name = install_hints.command_for(kind, place.name), read_known_packages().package_of(kind, place.name)
    if command is None or name is None:
        return None
    if place.dist is not None and canonicalize_name(place.dist) != name:
        return None
    try:
        version = distribution(name).version
    except PackageNotFoundError:
        return f"It comes with {name}: {command}"
    return f"{name} {version} does not have it; a newer one may: {command.replace('install', 'install --upgrade', 1)}"


def _make_error(key: str, message: str, suggestion: str | None = None) -> ConfigError:
    return ConfigError([Problem(key=key, message=message, suggestion=suggestion)])
