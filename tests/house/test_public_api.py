"""Our own plugins and the scaffolds import only those modules of core that `docs/api.md` lists."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import REPOSITORY

from astuner_devkit.public_api import CORE, internal_imports, public_modules
from astuner_devkit.scaffold.filling import fill_package
from astuner_devkit.scaffold.kinds import SCAFFOLDS
from astuner_devkit.scaffold.names import choose_names

PLUGINS = sorted(path.name for path in (REPOSITORY / "plugins").iterdir() if (path / "src").is_dir())
PINNED = ("astuner-devkit", "astuner-rollout-workers", "astuner-tools")
"""They require core's exact version, and may import all of it."""
MOST_MODULES = 90
ROW = re.compile(r"^\| `([\w.]+)` \| (stable|may change) \|", re.MULTILINE)


def list_imports(plugin: str) -> Iterator[str]:
    """Yield the modules of core that a plugin imports."""
    for file in (REPOSITORY / "plugins" / plugin / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def test_the_document_lists_what_the_check_allows() -> None:
    rows = ROW.findall((REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8"))
    assert dict(rows) == dict(public_modules())
    assert len(rows) == len(public_modules())


@pytest.mark.parametrize("name", sorted(public_modules()))
def test_every_public_module_exists(name: str) -> None:
    place = CORE.joinpath(*name.split(".")[1:])
    assert (place / "__init__.py").is_file() or place.with_suffix(".py").is_file()


def test_there_are_few_public_modules() -> None:
    assert len(public_modules()) <= MOST_MODULES


def test_what_no_plugin_imports_is_not_public() -> None:
    imported = {name for plugin in set(PLUGINS) - {*PINNED} for name in list_imports(plugin)}
    stable = {name for name, stability in public_modules().items() if stability == "stable"}
    assert sorted({*public_modules()} - stable - imported) == []


def test_there_are_twenty_two_plugins() -> None:
    assert len(PLUGINS) == 22


@pytest.mark.parametrize("plugin", PLUGINS)
def test_what_may_import_all_of_core_requires_its_exact_version(plugin: str) -> None:
    project = tomllib.loads((REPOSITORY / "plugins" / plugin / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = [needed for needed in project["dependencies"] if re.match(r"astuner-core(\[\w+\])?==\d+\.\d+\.\d+$", needed)]
    assert bool(pins) == (plugin in PINNED)


@pytest.mark.parametrize("plugin", sorted({*PLUGINS} - {*PINNED}))
def test_a_plugin_imports_nothing_internal(plugin: str) -> None:
    sources = REPOSITORY / "plugins" / plugin / "src"
    files = sorted(sources.rglob("*.py"))
    assert files
    assert [found.describe(sources) for found in internal_imports(files)] == []


@pytest.mark.parametrize("kind", SCAFFOLDS)
def test_a_generated_package_imports_nothing_internal(kind: str, tmp_path: Path) -> None:
    files = []
    for name, text in fill_package(choose_names(kind, f"acme-my-{kind}", None)).items():
        if name.endswith(".py"):
            files.append(tmp_path / Path(name).name)
            files[-1].write_text(text, encoding="utf-8")
    assert files
    assert [found.describe(tmp_path) for found in internal_imports(files)] == []
