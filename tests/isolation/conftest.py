"""Environments with real wheels in them: one per scenario, over the third-party packages of the one that the tests run in."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from environments import Environment, Wheel

from astuner_devkit.distribution import write_wheel
from astuner_devkit.project import write_tokenizer

REPOSITORY = Path(__file__).parents[2]
MADE_FOR = ("astuner-core>=0.2,<0.3",)


@pytest.fixture(scope="session")
def core_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build_wheel(REPOSITORY / "astuner-core", tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="session")
def plugin_wheels(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    """What makes environments of backbones, and what the projects of tests are made of."""
    out = tmp_path_factory.mktemp("plugins")
    return [_build_wheel(REPOSITORY / "plugins" / name, out / name) for name in ("astuner-trinity", "astuner-devkit")]


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model") / "tokenizer"
    write_tokenizer(directory)
    return directory


@pytest.fixture
def wheel(tmp_path: Path) -> Wheel:
    """Writes the wheel of a third party."""

    def write(
        name: str,
        version: str,
        entry_points: Mapping[str, Mapping[str, str]],
        *,
        files: Mapping[str, str],
        requires: Sequence[str] = MADE_FOR,
    ) -> Path:
        return write_wheel(tmp_path / "wheels", name, version, files, entry_points, requires)

    return write


@pytest.fixture
def environment(tmp_path: Path, core_wheel: Path, tokenizer: Path) -> Environment:
    """An environment with nothing of ours but core, and the test kit of the environment of the tests."""
    home = tmp_path / "venv"
    subprocess.run(
        [sys.executable, "-m", "uv", "venv", "--python", sys.executable, str(home)], check=True, capture_output=True, timeout=120
    )
    made = Environment(home, tokenizer)
    (site,) = home.glob("lib/python*/site-packages")
    # Third-party packages come from the environment of the tests; what is installed here goes before them.
    (site / "third_party.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    made.install(core_wheel)
    return made


def _build_wheel(source: Path, out: Path) -> Path:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    (wheel,) = out.glob("*.whl")
    return wheel
