"""The wheels that would be published: complete, well described, and enough by themselves."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGES = ("astuner-core", *(f"plugins/{path.name}" for path in sorted((REPOSITORY / "plugins").glob("astuner-*"))))


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheels")
    for package in PACKAGES:
        subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(REPOSITORY / package)], check=True)
    return out


def python(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([home / "bin" / "python", *arguments], capture_output=True, text=True, check=False)


def install(home: Path, wheels: Path, *names: str) -> None:
    """Install as `pip install NAME…` would, with our own packages taken from the wheels alone."""
    venv.create(home, with_pip=True)
    constraints = REPOSITORY / "constraints" / "base.txt"
    found = python(home, "-m", "pip", "install", "-q", "--find-links", str(wheels), "-c", str(constraints), *names)
    assert found.returncode == 0, found.stderr


def test_every_package_has_a_wheel(wheels: Path):
    built = {path.name.split("-")[0] for path in wheels.glob("*.whl")}
    assert built == {Path(package).name.replace("-", "_") for package in PACKAGES}


def test_every_wheel_is_well_described(wheels: Path):
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, wheels.glob("*.whl"))], check=True)


def test_every_wheel_is_typed_and_bounds_the_core(wheels: Path):
    for path in wheels.glob("*.whl"):
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            metadata = wheel.read(next(name for name in names if name.endswith("METADATA"))).decode()
        assert any(name.endswith("py.typed") for name in names), path.name
        assert "License-Expression: Apache-2.0" in metadata
        if not path.name.startswith("astuner_core"):
            assert "astuner-core" in metadata
            assert ">=0.1" in metadata
            assert "<0.2" in metadata


@pytest.mark.parametrize("plugin", [name for name in PACKAGES if name not in ("astuner-core", "plugins/astuner-local")])
def test_a_plugin_works_alone_with_core(wheels: Path, tmp_path: Path, plugin: str):
    name = Path(plugin).name
    install(tmp_path / "venv", wheels, name)
    listed = python(tmp_path / "venv", "-m", "astuner", "plugin", "list")
    assert listed.returncode == 0, listed.stderr
    assert name in listed.stdout


def test_core_alone_answers_and_names_what_brings_a_trainer(wheels: Path, tmp_path: Path):
    install(tmp_path / "venv", wheels, "astuner-core")
    (tmp_path / "run.yaml").write_text("astuner: {model: {path: some/model}, rollout: {user_workflow: './a.py:A'}}\n")
    refused = python(tmp_path / "venv", "-m", "astuner", "run", "--conf", str(tmp_path / "run.yaml"), "--backbone", "local")
    assert refused.returncode == 2
    assert "pip install astuner-local" in refused.stderr
