from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from astuner_devkit.distribution import write_distribution
from astuner_devkit.isolation import refresh_imports, undo_after
from astuner_trinity.own_venv.examination import PLACE
from astuner_trinity.own_venv.locked_venv import LockedVenv

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs distributions into an environment that has nothing else."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.delenv("PYTHONPATH", raising=False)

    def write(name: str, version: str = "1.0", *, direct_url: str | None = None, **described: object) -> Path:
        write_distribution(site, name, version, **described)  # type: ignore[arg-type]
        if direct_url is not None:
            (site / f"{name.replace('-', '_')}-{version}.dist-info" / "direct_url.json").write_text(direct_url)
        refresh_imports()
        return site

    with undo_after(site):
        sys.path[:] = [str(site)]
        refresh_imports()
        yield write


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LockedVenv:
    """What the environment of a backbone `acme` is made of."""
    monkeypatch.setenv(PLACE, str(tmp_path / "venvs"))
    folder = tmp_path / "recipe"
    folder.mkdir()
    (folder / "requirements.txt").write_text("acme-trainer==1.0\n")
    (folder / "lock.txt").write_text("# Generated.\nacme-trainer==1.0\nacme-arrays==2.4.6\nAcme_Web==3.1\n")
    (folder / "overrides.txt").write_text("acme-arrays>=2\n")
    return LockedVenv(
        in_place_with="acme-trainer",
        requirements=folder / "requirements.txt",
        lock=folder / "lock.txt",
        overrides=folder / "overrides.txt",
    )


@pytest.fixture
def astuner(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line in a process of its own, as a user does; it finds what `fake_distribution` installs."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **variables}
        command = [sys.executable, "-c", "from astuner.cli import main; main()", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120, check=False)

    return run
