"""What our packages offer, installed or not: `known_packages.toml`, which is written from their pyproject.toml files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from attrs import field, frozen

CORE = "astuner-core"


@frozen(kw_only=True)
class KnownPackages:
    """What our packages offer, installed or not."""

    components: Mapping[tuple[str, str], str]
    """What to install, by (kind, name): the distribution, with its extras in brackets."""
    libraries: Mapping[str, str]
    """Libraries that only some backbones and engines need, and the package that brings each."""
    engines: Mapping[str, Sequence[str]]
    """Values of `rollout.name` for which there is no engine of a package, and the backbones that serve each themselves."""
    engine_ranks: Mapping[str, int] = field(factory=dict)
    """The place of an engine among those that the backbone `debug` tries for `rollout.name: auto`; the lowest is the first."""
    command_ranks: Mapping[str, int] = field(factory=dict)
    """The place of a command in the help, from the first that a beginner types; the tens are its section."""
    short_services: Mapping[str, str] = field(factory=dict)
    """Help of the services that have an option of their own, `--with-NAME`, by name."""
    tiny_models: Mapping[str, Sequence[str]] = field(factory=dict)
    """The backbones that make tiny models for `astuner warm-start --tiny`, by package."""
    heavy_modules: Mapping[str, Sequence[str]] = field(factory=dict)
    """Modules that must not be imported before they are used, by package; core's own are known to it."""
    wire_api_paths: Mapping[str, Sequence[str]] = field(factory=dict)
    """The paths of wire APIs, by name, so that a call of one that is not installed is answered with what to install."""
    api_keys: Mapping[str, Sequence[str]] = field(factory=dict)
    """Environment variables that hold the usual API keys of a package."""
    windows: Mapping[str, Mapping[str, str]] = field(factory=dict)
    """The releases of libraries that a package was tried with and drives, by package."""

    def package_of(self, kind: str, name: str) -> str | None:
        """Return the name of the package that brings a component; None if no known package has it."""
        requirement = self.components.get((kind, name))
        return None if requirement is None else requirement.partition("[")[0]

    @property
    def packages(self) -> frozenset[str]:
        """The names of all packages."""
        return frozenset(requirement.partition("[")[0] for requirement in self.components.values())

    @property
    def engine_order(self) -> tuple[str, ...]:
        """The engines that the backbone `debug` tries, in order."""
        return tuple(sorted(self.engine_ranks, key=self.engine_ranks.__getitem__))

    def names(self, kind: str) -> list[str]:
        """Return the names of the components of a kind."""
        return [name for other, name in self.components if other == kind]


@cache
def read_known_packages() -> KnownPackages:
    """Return the packages that were known when this release of astuner-core was made."""
    data = tomllib.loads(files("astuner").joinpath("shared", "known_packages.toml").read_text(encoding="utf-8"))
    components = {(kind, name): needs for kind, named in data["components"].items() for name, needs in named.items()}
    return KnownPackages(**{**data, "components": components})
