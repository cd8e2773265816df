"""What a distribution says that it needs, held against what is installed. Reads metadata only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

CORE = "astuner-core"


def core_requirement(dist: Distribution) -> str | None:
    """Return the range of astuner-core in a plugin's metadata, as in `>=0.1,<0.2`; None when it names none."""
    for requirement in _requirements(dist, ("",)):
        if canonicalize_name(requirement.name) == CORE:
            return _lower_bound_first(requirement)
    return None


def provided_extras(dist: Distribution) -> frozenset[str]:
    """Return the names of a distribution's extras, normalised."""
    return frozenset(canonicalize_name(extra) for extra in dist.metadata.get_all("Provides-Extra") or ())


def unmet(dist: Distribution, extras: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the requirements of a distribution and some of its extras that are not installed, or not in their range.

    The range of astuner-core itself is left to `astuner.plugins.compat`.
    """
    missing: dict[str, None] = {}
    _collect(dist, ("", *extras), missing, visited=set())
    return tuple(missing)


def _collect(dist: Distribution, extras: Iterable[str], missing: dict[str, None], visited: set[tuple[str, str]]) -> None:
    for requirement in _requirements(dist, extras):
        name = canonicalize_name(requirement.name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            missing[_text(requirement)] = None
            continue
        if name != CORE and not requirement.specifier.contains(found.version, prereleases=True):
            missing[f"{_text(requirement)} ({found.version} is installed)"] = None
        # `astuner-core[rollout]` asks for more than that astuner-core is there.
        asked = [extra for extra in requirement.extras if (name, extra) not in visited]
        visited.update((name, extra) for extra in asked)
        if asked:
            _collect(found, asked, missing, visited)


def _requirements(dist: Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    """Yield what applies on this machine: under the extra `""` what always applies, under another what it adds."""
    for line in dist.requires or ():
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue  # pip refuses such a distribution, so only a hand-made one gets here
        always = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if any(always if extra == "" else not always and _applies(requirement, extra) for extra in extras):
            yield requirement


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is not None and requirement.marker.evaluate({"extra": extra})


def _text(requirement: Requirement) -> str:
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{_lower_bound_first(requirement)}"


def _lower_bound_first(requirement: Requirement) -> str:
    # A parsed specifier is a set: it has lost the order it was written in.
    return ",".join(sorted(map(str, requirement.specifier), key=lambda part: (part.startswith(("<", "!")), part)))
