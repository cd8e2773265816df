"""The tutorial makes the tasks that its page shows, with the stand-in that plays the LLM."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[4] / "tutorial" / "data_generation"
SHOWN = ("train: 12 of 12 tasks", "validation: 6 of 6 tasks", "f0b5f8a50cfa78b38573", "b14efcec7b6c185ff6ea")


@pytest.mark.skipif(not TUTORIAL.is_dir(), reason="the package is tested without its repository")
def test_the_tutorial_shows_what_comes_out(tmp_path: Path) -> None:
    home = tmp_path / "tutorial"
    shutil.copytree(TUTORIAL, home, ignore=shutil.ignore_patterns("generated_tasks", "launcher_record"))
    command = [
        sys.executable,
        "stand_in.py",
        sys.executable,
        "-m",
        "astuner",
        "data",
        "generate",
        "--conf",
        "tune.yaml",
        "--out",
        ".",
    ]
    # The model that is tuned plays no part in making tasks.
    environment = {**os.environ, "AGENT_MODEL": "no/model"}
    made = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stderr
    written = made.stderr + (home / "train.jsonl").read_text() + (home / "validation.jsonl").read_text()
    assert [text for text in SHOWN if text not in written] == []
    assert SHOWN[2] in (TUTORIAL / "README.md").read_text()
