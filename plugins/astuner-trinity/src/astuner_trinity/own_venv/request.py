"""What a user asked of `astuner setup`, and what follows from it and from the installed packages."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import frozen
from packaging.utils import canonicalize_name

from astuner_trinity.own_venv.locked_venv import LockedVenv
from astuner_trinity.own_venv.pins import read_pins, read_requirements
from astuner_trinity.own_venv.user_packages import UserPackage, list_user_packages


@frozen(kw_only=True)
class SetupRequest:
    """The options of `astuner setup`."""

    requirements: tuple[Path, ...] = ()
    overrides: tuple[Path, ...] = ()
    without: tuple[str, ...] = ()
    """Patterns of packages that are left out."""

    def format_command(self, backbone: str) -> str:
        """Return the command that asks for this again."""
        words = ["astuner", "setup", backbone]
        words += [word for file in self.requirements for word in ("--requirements", str(file))]
        words += [word for file in self.overrides for word in ("--overrides", str(file))]
        words += [word for pattern in self.without for word in ("--without", pattern)]
        return shlex.join(words)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "requirements": [str(file) for file in self.requirements],
            "overrides": [str(file) for file in self.overrides],
            "without": list(self.without),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SetupRequest:
        """Read what `as_dict` returned."""
        return cls(
            requirements=tuple(map(Path, values["requirements"])),
            overrides=tuple(map(Path, values["overrides"])),
            without=tuple(values["without"]),
        )


@frozen(kw_only=True)
class SetupPlan:
    """What goes into an environment."""

    backbone: str
    own: LockedVenv
    request: SetupRequest
    pins: Mapping[str, str]
    """The versions of the lock, but those that `--overrides` replaces."""
    packages: tuple[UserPackage, ...]
    """Of the user's environment, in addition to the lock's."""

    @property
    def digest(self) -> str:
        """Changes with every file that the environment is made of."""
        own, request = self.own, self.request
        files = (
            own.requirements,
            own.lock,
            *([own.overrides] if own.overrides else []),
            *request.requirements,
            *request.overrides,
        )
        return sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()

    @property
    def ours(self) -> tuple[str, ...]:
        """The requirements of astuner's packages, which have to be the same in both environments."""
        return tuple(package.requirement for package in self.packages if package.is_ours)

    @property
    def others(self) -> tuple[str, ...]:
        """The requirements of all other packages."""
        return tuple(package.requirement for package in self.packages if not package.is_ours)


def plan_setup(backbone: str, own: LockedVenv, request: SetupRequest, left_out: Collection[str] = ()) -> SetupPlan:
    """Return what to install, without the plugins that are left out because they do not fit. Reads metadata only."""
    overridden = {canonicalize_name(one.name) for file in request.overrides for _, one in read_requirements(file)}
    pins = {name: version for name, version in read_pins(own.lock).items() if name not in overridden}
    without = {*pins, *overridden, *left_out}
    packages = [
        package for package in list_user_packages() if package.name not in without and not _is_unwanted(package, request.without)
    ]
    return SetupPlan(backbone=backbone, own=own, request=request, pins=pins, packages=tuple(packages))


def _is_unwanted(package: UserPackage, patterns: tuple[str, ...]) -> bool:
    # `--without '*'` means the user's packages: a plugin has to be named.
    names = [canonicalize_name(pattern) for pattern in patterns]
    return package.name in names if package.is_ours else any(fnmatchcase(package.name, name) for name in names)
