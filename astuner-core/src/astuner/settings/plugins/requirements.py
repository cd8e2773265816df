"""The requirements of distributions, checked against what is installed. Reads metadata only, and each file once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from astuner.shared.known_packages import CORE

WORKS_WITHOUT = "astuner.works_without"
"""The entry point group in which a distribution names requirements that it works without on some machines: those that need a GPU,
for example. They do not count as missing; what needs them reports it when used."""
SHOWS_RUNS = "astuner.shows_runs"
"""The entry point group in which a distribution names those of its commands that show a run, given its directory."""


class Facts:
    """The metadata of a distribution, read once."""

    def __init__(self, dist: Distribution) -> None:
        """Read name, version and extras; the requirements are parsed on first use."""
        headers = _read_headers(dist)
        (self.name,) = headers.get("name") or (dist.name,)
        (self.version,) = headers.get("version") or (dist.version,)
        self.extras = frozenset(map(canonicalize_name, headers.get("provides-extra", ())))
        """Normalised."""
        self._lines = headers.get("requires-dist") or ()
        self._dist = dist

    @cached_property
    def works_without(self) -> frozenset[str]:
        """The normalised names of requirements that the distribution works without on some machines."""
        points = self._dist.entry_points
        return frozenset(canonicalize_name(point.name) for point in points if point.group == WORKS_WITHOUT)

    @cached_property
    def shows_runs(self) -> frozenset[str]:
        """The names of its commands that show a run."""
        return frozenset(point.name for point in self._dist.entry_points if point.group == SHOWS_RUNS)

    @cached_property
    def _requirements(self) -> tuple[Requirement, ...]:
        return tuple([requirement for requirement in map(_parse_requirement, self._lines) if requirement is not None])

    def list_requirements(self, extras: Iterable[str]) -> list[Requirement]:
        """Return the requirements that apply on this machine: for the extra `""` those without one, for another its own."""
        found = []
        for requirement in self._requirements:
            marker = requirement.marker
            always = marker is None or marker.evaluate({"extra": ""})
            for extra in extras:
                if always if extra == "" else not always and marker is not None and marker.evaluate({"extra": extra}):
                    found.append(requirement)
                    break
        return found

    @cached_property
    def core_requirement(self) -> str | None:
        """The range of astuner-core, as in `>=0.2,<0.3`; None if the distribution names none."""
        found = [one for one in self.list_requirements([""]) if canonicalize_name(one.name) == CORE]
        return _format_specifier(found[0]) if found else None


class Installed:
    """The installed distributions at one moment."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._by_name: dict[str, Facts | None] = {}
        self._by_dist: dict[Distribution, Facts] = {}
        self._unmet: dict[tuple[Facts, frozenset[str]], tuple[str, ...]] = {}
        """By distribution and extras: its components ask again and again."""

    def get_facts(self, dist: Distribution) -> Facts:
        """Return the metadata of a distribution."""
        if dist not in self._by_dist:
            self._by_dist[dist] = Facts(dist)
        return self._by_dist[dist]

    def find_unmet(self, facts: Facts, extras: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the requirements of a distribution and some of its extras that are not installed, or not in their range.

        The range of astuner-core itself is left to `astuner.settings.plugins.compat`.
        """
        key = facts, frozenset(extras)
        if key not in self._unmet:
            missing: dict[str, None] = {}
            self._collect(facts, ("", *sorted(key[1])), missing, visited=set())
            self._unmet[key] = tuple(missing)
        return self._unmet[key]

    def _collect(self, facts: Facts, extras: Iterable[str], missing: dict[str, None], visited: set[tuple[str, str]]) -> None:
        for requirement in facts.list_requirements(extras):
            name = canonicalize_name(requirement.name)
            found = self._get_facts_by_name(name)
            if found is None:
                if name not in facts.works_without:
                    missing[_format_requirement(requirement)] = None
                continue
            if name != CORE and not requirement.specifier.contains(found.version, prereleases=True):
                missing[f"{_format_requirement(requirement)} ({found.version} is installed)"] = None
            # `astuner-core[rollout]` asks for more than astuner-core itself.
            if not requirement.extras:
                continue
            asked = [extra for extra in requirement.extras if (name, extra) not in visited]
            visited.update([(name, extra) for extra in asked])
            if asked:
                self._collect(found, asked, missing, visited)

    def _get_facts_by_name(self, name: str) -> Facts | None:
        if name not in self._by_name:
            try:
                self._by_name[name] = Facts(distribution(name))
            except PackageNotFoundError:
                self._by_name[name] = None
        return self._by_name[name]


def _read_headers(dist: Distribution) -> Mapping[str, Sequence[str]]:
    """Return the headers of the metadata by name in lower case.

    `Distribution.metadata` would also parse the README after them, on each access: that takes most of a listing's time.
    """
    text = dist.read_text("METADATA")
    if text is None:  # a format older than wheels, with requirements elsewhere
        return {"requires-dist": dist.requires or (), "provides-extra": dist.metadata.get_all("Provides-Extra") or ()}
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if not line:
            break
        if line[0] in " \t":
            found[name][-1] += f" {line.strip()}"
        else:
            name, _, value = line.partition(":")
            name = name.lower()
            found.setdefault(name, []).append(value.strip())
    return found


@cache
def _parse_requirement(line: str) -> Requirement | None:
    # Plugins need much the same packages, so most lines occur many times.
    try:
        return Requirement(line)
    except InvalidRequirement:
        return None  # pip refuses such a distribution, so only hand-made ones get here


def _format_requirement(requirement: Requirement) -> str:
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{_format_specifier(requirement)}"


def _format_specifier(requirement: Requirement) -> str:
    # A parsed specifier is a set: it has lost the order it was written in.
    return ",".join(sorted(map(str, requirement.specifier), key=lambda part: (part.startswith(("<", "!")), part)))
