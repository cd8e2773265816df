"""Makes `COMMIT.tar.xz`: a run of that commit of this repository, killed in its third step.

    python tests/integration/stored_runs/make.py COMMIT

It installs the commit into an environment of its own (pip, a few minutes), and leaves nothing else behind.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
PROJECT = Path("/tmp/stored_run/project")
"""The same for all, so that the files do not say where they were made."""


def main(commit: str) -> None:
    """Install, run, kill, pack."""
    name = git("rev-parse", "--short=9", commit).strip()
    with TemporaryDirectory() as place:
        sources, environment = Path(place, "sources"), Path(place, "environment")
        sources.mkdir()
        archive = subprocess.run(["git", "archive", commit], cwd=HERE.parents[2], stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "-C", str(sources)], input=archive.stdout, check=True)
        venv.create(environment, with_pip=True)
        packages = ["./astuner-core[rollout]", "./plugins/astuner-local", "-c", "constraints/base.txt"]
        subprocess.run([environment / "bin/python", "-m", "pip", "install", "-q", *packages], cwd=sources, check=True)
        shutil.rmtree(PROJECT.parent, ignore_errors=True)
        shutil.copytree(HERE / "project", PROJECT)
        try:
            run = play(environment / "bin/python")
            forget_machine(run / "run.json")
            with tarfile.open(HERE / f"{name}.tar.xz", "w:xz") as packed:
                packed.add(run, "launcher_record/stored", filter=forget_owner)
        finally:
            shutil.rmtree(PROJECT.parent)


def play(python: Path) -> Path:
    """Start the run, and kill it once step 3 is logged."""
    run = PROJECT / "launcher_record" / "stored"
    command = [python, "-m", "astuner", "run", "--conf", "tune.yaml"]
    started = subprocess.Popen(command, cwd=PROJECT, env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True)
    metrics = run / "metrics.jsonl"
    while started.poll() is None and not (metrics.is_file() and '"step": 3' in metrics.read_text()):
        time.sleep(0.001)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    return run


def forget_machine(record: Path) -> None:
    """Take the name of the machine and the place of the environment out of `run.json`."""
    facts = json.loads(record.read_text())
    facts.pop("checksum", None)
    facts["command"] = ["astuner", "run", "--conf", "tune.yaml"]
    facts["attempts"] = [{**attempt, "host": "host", "pid": 1} for attempt in facts["attempts"]]
    record.write_text(json.dumps(facts, indent=2))


def forget_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Take the user out of an entry."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def git(*arguments: str) -> str:
    """Return what git prints."""
    return subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main(sys.argv[1])
