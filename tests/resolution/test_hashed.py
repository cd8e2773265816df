"""The pins with hashes are what the package `astuner` resolves to, and install on each system and Python that it claims."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from harness import REPOSITORY

SCRIPT: dict[str, Any] = runpy.run_path(str(REPOSITORY / "scripts" / "write_hashed.py"))
PYTHONS = ("3.11", "3.12", "3.13")
SYSTEMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin")
LIMIT_S = 600


def list_files() -> list[Path]:
    return [REPOSITORY / "constraints" / name for name in SCRIPT["FILES"]]


def test_the_pins_are_what_the_requirements_resolve_to() -> None:
    pins = SCRIPT["read_files"]()
    assert SCRIPT["list_pins"](pins).keys() == pins.keys(), "run: python scripts/write_hashed.py"


def test_the_files_are_written_as_the_script_does() -> None:
    written = [SCRIPT["format_file"](path.name, SCRIPT["read_files"]()) for path in list_files()]
    assert written == [path.read_text(encoding="utf-8") for path in list_files()]


def test_the_pins_are_those_of_the_tests() -> None:
    lines = (REPOSITORY / "constraints" / "base.txt").read_text(encoding="utf-8").splitlines()
    tested = dict(line.split("==") for line in lines if "==" in line)
    # What a version depends on is in each file once, whatever the marker.
    pins = dict(pin.partition(" ")[0].split("==") for pin in SCRIPT["read_files"]())
    assert {name: (version, tested[name]) for name, version in pins.items() if tested.get(name, version) != version} == {}


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_finds_a_file_with_a_hash(published: Path, tmp_path: Path, system: str, python: str) -> None:
    (tmp_path / "lock.txt").write_text(SCRIPT["format_lock"](published), encoding="utf-8")
    command = [sys.executable, "-m", "uv", "pip", "install", "--dry-run", "--quiet", "--require-hashes"]
    command += ["--python-platform", system, "--python-version", python, "--target", str(tmp_path / "target")]
    command += ["--only-binary", ":all:", "--find-links", str(published), "-r", str(tmp_path / "lock.txt")]
    ours = ("UV_CONSTRAINT", "UV_FIND_LINKS", "UV_TORCH_BACKEND")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    # The oldest that torch has files for.
    environment["MACOSX_DEPLOYMENT_TARGET"] = "14.0"
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
