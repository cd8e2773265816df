from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import frozen

from astuner_devkit.scaffold.kinds import SCAFFOLDS

TIMEOUT_S = 240


@frozen(kw_only=True)
class Package:
    """A package that `astuner plugin new` wrote, with an environment in which it alone is installed, from its wheel."""

    kind: str
    dist: str
    source: Path
    wheel: Path
    python: Path


Python = Callable[..., str]
"""`python(*arguments, cwd=..., executable=...)`: runs a Python, by default that of these tests; returns what it said."""

New = Callable[[str, str, Path], Path]
"""From a kind, a distribution and the directory to write into to the directory of the package."""

Build = Callable[[Path], tuple[Path, Path]]
"""From the directory of a package to its wheel, and to the Python of a fresh environment that has it."""


@pytest.fixture(scope="session")
def python() -> Python:
    """Runs a Python in a process of its own, which must succeed."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}

    def run(*arguments: object, cwd: Path, executable: Path | str = sys.executable) -> str:
        command = [str(executable), *map(str, arguments)]
        with subprocess.Popen(
            command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                out, err = process.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                err += f"\nkilled after {TIMEOUT_S} s"
        assert process.returncode == 0, f"{' '.join(command)}\n{out[-6000:]}{err[-12000:]}"
        return out

    return run


@pytest.fixture(scope="session")
def new(python: Python) -> New:
    """Runs `astuner plugin new`."""

    def write(kind: str, dist: str, directory: Path) -> Path:
        python("-m", "astuner", "plugin", "new", kind, dist, cwd=directory)
        return directory / dist

    return write


@pytest.fixture(scope="session")
def build(python: Python) -> Build:
    """Builds the wheel of a package, and installs it alone over what the environment of these tests has."""

    def install(source: Path) -> tuple[Path, Path]:
        python("-m", "build", "--wheel", "--no-isolation", source, cwd=source.parent)
        (wheel,) = (source / "dist").glob("*.whl")
        home = source.parent / f"{source.name}.venv"
        python("-m", "uv", "venv", "-q", "--python", sys.executable, home, cwd=source.parent)
        own = home / "bin" / "python"
        shared = sysconfig.get_path("purelib")
        (site,) = home.glob("lib/python*/site-packages")
        # Everything else is seen as it lies there, editable installs included; nothing of it is copied.
        (site / "shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n")
        python("-m", "uv", "pip", "install", "-q", "--python", own, "--no-index", "--no-deps", wheel, cwd=source.parent)
        return wheel, own

    return install


@pytest.fixture(scope="session", params=SCAFFOLDS)
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, new: New, build: Build) -> Package:
    """The package of each kind, as it is generated."""
    kind = request.param
    source = new(kind, f"acme-my-{kind}", tmp_path_factory.mktemp(kind))
    wheel, own = build(source)
    return Package(kind=kind, dist=source.name, source=source, wheel=wheel, python=own)
