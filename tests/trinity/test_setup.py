"""Installing, `astuner setup trinity` and `astuner run --backbone trinity`, as users do it, on the CPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from one_quickstart import one_quickstart

REPOSITORY = Path(__file__).parents[2]
SUPPORT = REPOSITORY / "tests" / "support"
VARIABLES = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed")]


def call(*words: object, cwd: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "UV_CONSTRAINT")}
    environment |= {**VARIABLES, "ASTUNER_STATE_DIR": str(cwd / "state")}
    command = list(map(str, words))
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False)


def test_trinity_trains_from_the_users_environment(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    venv, project = tmp_path / "venv", tmp_path / "project"
    shutil.copytree(one_quickstart(tmp_path_factory), project, ignore=shutil.ignore_patterns("launcher_record"))
    made = call("uv", "venv", "--python", sys.executable, venv, cwd=tmp_path, timeout=120)
    assert made.returncode == 0, made.stderr
    packages = [REPOSITORY / "astuner-core", *(REPOSITORY / "plugins" / name for name in ("astuner-trinity", "astuner-judges"))]
    installed = call("uv", "pip", "install", "--python", venv / "bin" / "python", *packages, cwd=tmp_path, timeout=600)
    assert installed.returncode == 0, installed.stderr
    astuner = venv / "bin" / "astuner"
    more = tmp_path / "cpu.txt"
    # Instead of GPUs and vLLM.
    more.write_text(f"{SUPPORT / 'astuner-trinity-cpu'}\n{REPOSITORY / 'plugins' / 'astuner-local'}\n", encoding="utf-8")
    options = ("--requirements", more, "--overrides", SUPPORT / "trinity_cpu_overrides.txt")
    ready = call(astuner, "setup", "trinity", *options, cwd=tmp_path, timeout=1200)
    assert ready.returncode == 0, ready.stderr
    settings = {
        "data.train_batch_size": 3,
        "rollout.num_repeat": 4,
        "trainer_common.total_training_steps": 1,
        "trainer_common.val_before_train": "false",
    }
    overrides = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    run = call(astuner, "run", "--conf", "tune.yaml", "--backbone", "trinity", *overrides, cwd=project, timeout=1500)
    assert run.returncode == 0, run.stderr[-4000:]
    assert "step 1: reward" in run.stdout + run.stderr
