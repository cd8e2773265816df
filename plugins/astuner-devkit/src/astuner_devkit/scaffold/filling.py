"""From the template files of a kind to the files of a package."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from importlib.metadata import version
from string import Template
from typing import TYPE_CHECKING

from packaging.version import Version

from astuner.settings.plugins.kinds import KINDS
from astuner.shared.known_packages import CORE
from astuner_devkit.scaffold.kinds import SCAFFOLDS

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from astuner_devkit.scaffold.names import Names

ENDING = ".in"
"""Of a template file: `$dist`, `$name`, `$module`, `$component` and so on are filled in, and `$$` is a dollar."""


def fill_package(names: Names) -> Mapping[str, str]:
    """Return the texts of a package by path, in reading order."""
    values = _collect_values(names)
    usage, options = _fill(names.kind, _find_usage_file(names.kind), values), _fill(names.kind, "options.md", values)
    fence = _find_usage_file(names.kind).rpartition(".")[2]
    whole = {**values, "usage": usage.rstrip("\n"), "options": options.rstrip("\n"), "fence": fence}
    return {
        "README.md": _fill("shared", "README.md", whole),
        "pyproject.toml": _fill("shared", "pyproject.toml", whole),
        f"src/{names.module}.py": _fill(names.kind, "component.py", values),
        f"tests/test_{names.module}.py": _fill(names.kind, "test_component.py", values),
    }


def fill_usage(names: Names) -> str:
    """Return an example of using the component: some lines of YAML, or a command."""
    return _fill(names.kind, _find_usage_file(names.kind), _collect_values(names))


def format_range(requirement: str, running: str | None = None) -> str:
    """Return the requirement for the running core and the releases compatible with it: `astuner-core>=0.2,<0.3`.

    The test kit has core's version.
    """
    now = Version(running or version(CORE))
    return f"{requirement}>={now.major}.{now.minor},<{now.major}.{now.minor + 1}"


def _collect_values(names: Names) -> Mapping[str, str]:
    scaffold = SCAFFOLDS[names.kind]
    core = f"{CORE}[{scaffold.core_extra}]" if scaffold.core_extra else CORE
    needs = (core,) if scaffold.package is None else (core, scaffold.package)
    return {
        "dist": names.dist,
        "name": names.name,
        "module": names.module,
        "component": names.component,
        "kind": names.kind,
        "group": str(KINDS[names.kind]),
        "target": f"{names.module}:{scaffold.target or names.component}",
        "description": scaffold.description,
        "dependencies": ", ".join(f'"{format_range(needed)}"' for needed in needs),
        "devkit": format_range("astuner-devkit"),
    }


def _find_usage_file(kind: str) -> str:
    return "usage.bash" if _find_folder(kind).joinpath(f"usage.bash{ENDING}").is_file() else "usage.yaml"


def _fill(folder: str, file: str, values: Mapping[str, str]) -> str:
    text = _find_folder(folder).joinpath(f"{file}{ENDING}").read_text(encoding="utf-8")
    return Template(text).substitute(values)


def _find_folder(name: str) -> Traversable:
    return resources.files(__package__).joinpath("templates", name)
