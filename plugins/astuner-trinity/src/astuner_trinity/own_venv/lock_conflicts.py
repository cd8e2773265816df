"""Requirements of the user that the versions of a lock do not meet, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import frozen
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from astuner_trinity.own_venv.pins import read_requirements
from astuner_trinity.own_venv.user_packages import UserPackage


@frozen(kw_only=True)
class LockConflict:
    """One requirement that a lock does not meet. Another version may meet it and all others."""

    source: str
    """Who has the requirement: `acme-agent 1.0`, or a file with a line."""
    asks: str
    """The line of a requirements file that brings it."""
    package: UserPackage | None
    """The installed package that has it; None for a line of a file."""
    requirement: Requirement
    version: str
    """The version of the lock."""

    @property
    def name(self) -> str:
        """The package that is asked for in another version, normalised."""
        return canonicalize_name(self.requirement.name)

    def describe(self, backbone: str) -> str:
        """Name both versions."""
        wanted = f"{self.requirement.name}{self.requirement.specifier}"
        return f"{self.source} needs {wanted}, and the backbone '{backbone}' needs {self.requirement.name} {self.version}"


def find_conflicts(packages: Iterable[UserPackage], files: Sequence[Path], pins: Mapping[str, str]) -> Iterator[LockConflict]:
    """Yield the requirements of installed packages, and the lines of requirements files, that a lock does not meet."""
    for package in packages:
        for requirement in _find_unmet(package.needs, pins):
            yield _make(package.provider, package.requirement, package, requirement, pins)
    for file in files:
        for number, requirement in read_requirements(file):
            if list(_find_unmet([requirement], pins)):
                yield _make(f"{file}:{number}", str(requirement), None, requirement, pins)


def explain_conflicts(backbone: str, conflicts: Sequence[LockConflict]) -> str:
    """Return why an environment cannot be made, and what to do."""
    lines = [f"the environment of the backbone '{backbone}' cannot hold everything that you ask for or have installed here:"]
    lines += [f"  {conflict.describe(backbone)}" for conflict in conflicts]
    names = dict.fromkeys(conflict.package.name for conflict in conflicts if conflict.package)
    if names:
        lines.append(f"Leave out what the run does not need ({' '.join(f'--without {name}' for name in names)}),")
    way = "or install" if names else "Ask for"
    return "\n".join([*lines, f"{way} a release that accepts these versions. --overrides FILE replaces a requirement, untested"])


def _find_unmet(requirements: Iterable[Requirement], pins: Mapping[str, str]) -> Iterator[Requirement]:
    for requirement in requirements:
        version = pins.get(canonicalize_name(requirement.name))
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if version is not None and applies and not requirement.specifier.contains(version, prereleases=True):
            yield requirement


def _make(source: str, asks: str, package: UserPackage | None, requirement: Requirement, pins: Mapping[str, str]) -> LockConflict:
    version = pins[canonicalize_name(requirement.name)]
    return LockConflict(source=source, asks=asks, package=package, requirement=requirement, version=version)
