"""A site that is not whole is not built: each fault ends the build, and names the page."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
from harness import REPOSITORY

SITE = """\
name = "Marbles"
description = "A small site."
pages = ["*.md", "docs/*.md", "tools/*/README.md"]
not_pages = ["docs/draft.md"]
folders = {}

[[section]]
title = "Start"
pages = [{ "Start page" = "docs/index.md" }, { "What it is" = "README.md" }, { "API" = "docs/api.md" }, "Modules"]

[[section]]
title = "Tools"
pages = [{ "A saw" = "tools/saw/README.md" }, { "A plane" = "tools/plane/README.md" }]
"""
FILES = {
    "README.md": "# Marbles\n\nRead [on](docs/index.md#colours), or see the [saw](tools/saw).\nThere are:\n* red ones\n",
    "docs/api.md": "# Modules\n\n## For all\n\n| module | stability |\n|---|---|\n| `astuner.toy` | stable |\n",
    "tools/plane/README.md": "# A plane\n\n* one\n\n  more\n* two\n",
    "docs/draft.md": "# A draft\n",
    "docs/index.md": "# Start\n\nFirst a sentence. Then [code](../saw.py).\n\n## Colours\n\n| a |\n|---|\n| `x \\| y` |\n",
    "docs/site.toml": SITE,
    "saw.py": "CUTS = 2\n",
    "tools/saw/README.md": "# A saw\n\n[Back](../../README.md), and `[no link](nowhere.md)`.\n",
    "astuner-core/src/astuner/__init__.py": "",
    "astuner-core/src/astuner/toy.py": '"""Toys."""\n\n\ndef roll() -> int:\n    """Roll a marble."""\n    return 1\n',
}


@pytest.fixture(scope="module")
def build_site() -> ModuleType:
    docs = REPOSITORY / "docs"
    sys.path.insert(0, str(docs))
    spec = importlib.util.spec_from_file_location("build_site", docs / "build_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(docs))
    return module


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name in ("site.css", "site_theme.json"):
        shutil.copy(REPOSITORY / "docs" / name, root / "docs")
    return root


def test_a_small_site(build_site: ModuleType, repository: Path, tmp_path: Path) -> None:
    built = build_site.build(tmp_path / "out", repository)
    about = (built / "about" / "index.html").read_text()
    assert 'href="../#colours"' in about
    assert 'href="../tools/saw/"' in about
    assert "<li>red ones</li>" in about
    start = (built / "index.html").read_text()
    assert 'href="files/saw.py/"' in start
    assert "<code>x | y</code>" in start
    plane = (built / "tools/plane/index.html").read_text()
    assert plane.count("<li>") == 2
    assert "<p>more</p>" in plane
    assert "CUTS" in (built / "files/saw.py/index.html").read_text()
    assert "Roll a marble." in (built / "api/for_all/index.html").read_text()
    assert "`[no link](nowhere.md)`" in (built / "tools/saw/index.md").read_text()
    assert "- [Start page](index.md): First a sentence.\n" in (built / "llms.txt").read_text()


@pytest.mark.parametrize(
    ("file", "added", "message"),
    [
        ("docs/index.md", "[x](gone.md)", "docs/index.md: docs/gone.md does not exist"),
        ("docs/index.md", "[x](../saw)", "docs/index.md: saw does not exist"),
        ("docs/new.md", "# New", "docs/new.md: not in the navigation"),
        (
            "docs/site.toml",
            '[[section]]\ntitle = "x"\npages = [{ "y" = "docs/gone.md" }]',
            "docs/gone.md: in the navigation, but ",
        ),
        ("docs/site.toml", '[[section]]\ntitle = "x"\npages = [{ "y" = "README.md" }]', "README.md: twice in the navigation"),
    ],
)
def test_a_fault_is_named(build_site: ModuleType, repository: Path, tmp_path: Path, file: str, added: str, message: str) -> None:
    with (repository / file).open("a") as text:
        text.write(f"\n{added}\n")
    with pytest.raises(SystemExit, match=message):
        build_site.build(tmp_path / "out", repository)


@pytest.mark.parametrize("link", ["[x](#gone)", "[x](../tools/saw/README.md#gone)"])
def test_an_anchor_that_does_not_exist_ends_the_build(
    build_site: ModuleType, repository: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], link: str
) -> None:
    with (repository / "docs/index.md").open("a") as text:
        text.write(f"\n{link}\n")
    with pytest.raises(SystemExit):
        build_site.build(tmp_path / "out", repository)
    assert "anchor does not exist" in "".join(capfd.readouterr())


def test_a_module_that_does_not_exist_ends_the_build(build_site: ModuleType, repository: Path, tmp_path: Path) -> None:
    (repository / "astuner-core/src/astuner/toy.py").unlink()
    with pytest.raises(SystemExit):
        build_site.build(tmp_path / "out", repository)
