"""What our packages offer, installed or not: `plugins/published.toml`, which is written from their pyproject.toml files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from attrs import frozen


@frozen(kw_only=True)
class Published:
    """What our packages offer, installed or not."""

    components: Mapping[tuple[str, str], str]
    """What to install, by (kind, name): `astuner-judges[llm]`."""
    libraries: Mapping[str, str]
    """Libraries that only some backbones and engines need, and the package that brings each."""
    engines: Mapping[str, Sequence[str]]
    """Values of `rollout.name` for which there is no engine of a package, and the backbones that serve each themselves."""
    excludes: Mapping[str, Mapping[str, str]]
    """Packages that cannot share an environment with others, and why, by package and by the other's name."""

    def package_of(self, kind: str, name: str) -> str | None:
        """Return the name of the package that brings a component; None for one that nobody publishes."""
        requirement = self.components.get((kind, name))
        return None if requirement is None else requirement.partition("[")[0]

    @property
    def packages(self) -> frozenset[str]:
        """The names of all packages."""
        return frozenset(requirement.partition("[")[0] for requirement in self.components.values())

    def names(self, kind: str) -> list[str]:
        """Return the names of the components of a kind."""
        return [name for other, name in self.components if other == kind]


@cache
def read_published() -> Published:
    """Return what was published when this release of astuner-core was made."""
    data = tomllib.loads(files("astuner").joinpath("plugins", "published.toml").read_text(encoding="utf-8"))
    components = {(kind, name): needs for kind, named in data["components"].items() for name, needs in named.items()}
    return Published(components=components, libraries=data["libraries"], engines=data["engines"], excludes=data["excludes"])
