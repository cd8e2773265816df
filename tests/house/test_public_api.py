"""Our own plugins and the scaffolds import only those modules of core that `docs/api.md` lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import REPOSITORY

from astuner_devkit.public_api import CORE, internal_imports, public_modules
from astuner_devkit.scaffold.filling import fill_package
from astuner_devkit.scaffold.kinds import SCAFFOLDS
from astuner_devkit.scaffold.names import choose_names

PLUGINS = sorted(path.name for path in (REPOSITORY / "plugins").iterdir() if (path / "src").is_dir())
ROW = re.compile(r"^\| `([\w.*]+)` \| (stable|may change) \|", re.MULTILINE)


def test_the_document_lists_what_the_check_allows() -> None:
    rows = ROW.findall((REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8"))
    assert dict(rows) == dict(public_modules())
    assert len(rows) == len(public_modules())


@pytest.mark.parametrize("name", sorted(public_modules()))
def test_every_public_module_exists(name: str) -> None:
    place = CORE.joinpath(*name.removesuffix(".*").split(".")[1:])
    assert (place / "__init__.py").is_file() or place.with_suffix(".py").is_file()


def test_there_are_eleven_plugins() -> None:
    assert len(PLUGINS) == 11


@pytest.mark.parametrize("plugin", PLUGINS)
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
