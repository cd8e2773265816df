"""What the user's environment has of its own: packages that no other one needs, as requirements that install them again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from attrs import frozen
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

CORE = "astuner-core"
INSTALLERS = frozenset({"pip", "setuptools", "uv", "wheel"})
"""They come with an environment, or make it."""


@frozen(kw_only=True)
class UserPackage:
    """An installed distribution that goes along into another environment."""

    name: str
    """Normalised."""
    provider: str
    """Name and version, for messages."""
    needs: tuple[Requirement, ...]
    """What it requires on this machine, without its extras."""
    requirement: str
    """A line of a requirements file: the same version from the same place, editable if it is so here."""
    is_ours: bool
    """Whether it is astuner-core or offers components to it: both environments need the same one."""
    is_folder: bool = False
    """Whether it is built from a folder, which may have changed since."""


def list_user_packages() -> tuple[UserPackage, ...]:
    """Return astuner's packages and those that no other package needs, ordered by name.

    What the rest needs comes with it. Packages on `PYTHONPATH` are left out: they are found from any environment.
    """
    found = _read_distributions()
    needs = {name: tuple(_read_requirements(dist)) for name, dist in found.items()}
    ours = {name for name, dist in found.items() if name == CORE or _offers_components(dist)}
    wanted = _find_roots(needs) | ours | {name for name, dist in found.items() if _read_origin(dist)}
    return tuple(_describe(name, found[name], needs[name], is_ours=name in ours) for name in sorted(wanted - INSTALLERS))


def _read_distributions() -> dict[str, Distribution]:
    elsewhere = {Path(place).resolve() for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place}
    found: dict[str, Distribution] = {}
    for dist in distributions():
        # Half-removed packages have no name.
        name = canonicalize_name(dist.name or "")
        if name and name not in found and Path(str(dist.locate_file(""))).resolve() not in elsewhere:
            found[name] = dist
    return found


def _read_requirements(dist: Distribution) -> Iterator[Requirement]:
    for line in dist.requires or ():
        with suppress(InvalidRequirement):  # pip refuses such a distribution, so only hand-made ones get here
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                yield requirement


def _offers_components(dist: Distribution) -> bool:
    return any(entry.group.startswith("astuner.") for entry in dist.entry_points)


def _find_roots(found: Mapping[str, Iterable[Requirement]]) -> set[str]:
    """Return the packages that none needs, and one of each circle of packages that only need each other."""
    needs: dict[str, set[str]] = {
        name: {str(canonicalize_name(requirement.name)) for requirement in requirements} - {name}
        for name, requirements in found.items()
    }
    roots = set(found) - set().union(*needs.values())
    reached = _follow(roots, needs)
    for name in sorted(found):
        if name not in reached:
            roots.add(name)
            reached |= _follow({name}, needs)
    return roots


def _follow(start: Iterable[str], needs: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += needs.get(name, ())
    return reached


def _describe(name: str, dist: Distribution, needs: tuple[Requirement, ...], *, is_ours: bool) -> UserPackage:
    origin = _read_origin(dist)
    folder = origin.get("dir_info") if origin else None
    if origin is None:
        requirement = f"{dist.name}=={dist.version}"
    elif folder is not None and folder.get("editable"):
        requirement = f"-e {origin['url']}"
    else:
        requirement = f"{dist.name} @ {_format_address(origin)}"
    is_folder = folder is not None and not folder.get("editable")
    provider = f"{dist.name} {dist.version}"
    return UserPackage(name=name, provider=provider, needs=needs, requirement=requirement, is_ours=is_ours, is_folder=is_folder)


def _read_origin(dist: Distribution) -> Mapping[str, Any] | None:
    """Return where a package was installed from, as its `direct_url.json` says; None if it came from an index."""
    text = dist.read_text("direct_url.json")
    return None if text is None else dict(json.loads(text))


def _format_address(origin: Mapping[str, Any]) -> str:
    address = str(origin["url"])
    if (version := origin.get("vcs_info")) is not None:
        address = f"{version['vcs']}+{address}@{version['commit_id']}"
    return f"{address}#subdirectory={origin['subdirectory']}" if origin.get("subdirectory") else address
