"""A release's lock installs what it names, and refuses any other file; its parts build the same twice."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
SCRIPT: dict[str, Any] = runpy.run_path(str(REPOSITORY / "scripts" / "write_hashed.py"))
LIMIT_S = 1200


def run_pip(home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run pip in an environment that is made for it, as a user does who has the wheels and the package index."""
    if not home.exists():
        made = [sys.executable, "-m", "uv", "venv", "-q", "--seed", "--python", sys.executable, str(home)]
        subprocess.run(made, check=True, timeout=LIMIT_S)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_CONSTRAINT"))}
    command = [str(home / "bin" / "python"), "-m", "pip", *words]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment | variables, timeout=LIMIT_S, check=False, cwd=home
    )


@pytest.fixture(scope="session")
def lock(published: Path) -> str:
    """The lock of a release, less torch and its libraries for GPUs, several GB."""
    return SCRIPT["format_lock"](published, without_torch=True)


def test_a_lock_installs_with_its_hashes_alone(published: Path, lock: str, tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text(lock, encoding="utf-8")
    home = tmp_path / "venv"
    options = ("--no-deps", "--require-hashes", "--find-links", str(published), "-r", str(tmp_path / "lock.txt"))
    done = run_pip(home, "install", "-q", *options, PIP_NO_COMPILE="1")
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(
        [str(home / "bin" / "astuner"), "plugin", "list", "--json"], capture_output=True, text=True, check=True
    )
    brought = {pin.partition("==")[0] for pin in SCRIPT["read_pins"](lock) if SCRIPT["OURS"].match(pin)} - {"astuner"}
    assert {row["dist"] for row in json.loads(listed.stdout)} == brought
    # All that it lacks is what was left out of the lock.
    lacking = {line.split()[3].rstrip(",") for line in run_pip(home, "check").stdout.splitlines() if " requires " in line}
    assert lacking == {"torch"}


def test_another_file_than_the_released_one_is_refused(published: Path, lock: str, tmp_path: Path) -> None:
    (digest,) = re.findall(r"^astuner-tools==\S+ \\\n    --hash=sha256:(\w+)", lock, re.MULTILINE)
    name = next(pin for pin in SCRIPT["read_pins"](lock) if pin.startswith("astuner-tools=="))
    (tmp_path / "lock.txt").write_text(f"{name} --hash=sha256:{digest[::-1]}\n", encoding="utf-8")
    options = ("--no-deps", "--require-hashes", "--no-index", "--find-links", str(published), "-r", str(tmp_path / "lock.txt"))
    done = run_pip(tmp_path / "venv", "install", *options)
    assert (done.returncode, "DO NOT MATCH THE HASHES" in done.stderr) == (1, True)


def test_a_lock_is_made_of_one_wheel_of_each_package(published: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="0 wheels of astuner; build them into an empty folder"):
        SCRIPT["format_lock"](tmp_path)


def test_the_same_sources_build_the_same_wheels(published: Path, tmp_path: Path) -> None:
    build = [sys.executable, str(REPOSITORY / "scripts" / "build_packages.py"), str(tmp_path / "again"), "--wheels"]
    subprocess.run(build, check=True, timeout=LIMIT_S)
    again = {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()}
    assert len(again) > 20
    assert [name for name, content in again.items() if content != (published / name).read_bytes()] == []


def test_packages_are_not_built_into_a_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "acme-0.1.0.tar.gz").touch()
    build = [sys.executable, str(REPOSITORY / "scripts" / "build_packages.py"), str(tmp_path)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, f"{tmp_path} is not empty; give a folder that is empty or new" in done.stderr) == (2, True)


@pytest.mark.parametrize("packages", ["astuner", "astuner-core astuner-trinity"])
def test_pip_resolves_what_is_typed_to_the_end(published: Path, tmp_path: Path, packages: str) -> None:
    """Without pins, with all of torch: it is resolved, and not downloaded."""
    report = tmp_path / "report.json"
    words = ("install", "-q", "--dry-run", "--report", str(report), "--find-links", str(published), *packages.split())
    done = run_pip(tmp_path / "venv", *words, PIP_CONFIG_FILE=os.devnull, PIP_FIND_LINKS="")
    assert done.returncode == 0, done.stderr
    found = {item["metadata"]["name"]: item["download_info"]["url"] for item in json.loads(report.read_text())["install"]}
    assert {*packages.split()} <= found.keys()
    assert [url for name, url in found.items() if name.startswith("astuner") and not url.startswith("file://")] == []
    assert ("torch" in found) == (packages == "astuner")
