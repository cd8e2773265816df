"""A tuned quickstart, exported once in each format."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from run_fixtures import Cli, cli, python_server, quickstart

from astuner.shared.processes import free_port
from astuner_devkit.waiting import until

__all__ = ["cli", "python_server", "quickstart"]

SHORT = (
    "--set=data.train_batch_size=2",
    "--set=rollout.num_repeat=2",
    "--set=trainer_common.total_training_steps=2",
    "--set=trainer_common.val_before_train=false",
    "--set=trainer_common.logger=[console]",
)


@pytest.fixture(scope="session")
def tuned(quickstart: Path, cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run of two steps, with `hf` and one folder for each precision of GGUF next to it."""
    home = tmp_path_factory.mktemp("tuned")
    ended = cli("run", "--conf", quickstart / "tune.yaml", *SHORT, f"--set=experiment_dir={home / 'run'}", cwd=quickstart)
    assert ended.returncode == 0, ended.stderr
    exported = cli("export", home / "run", "--format", "hf", "--out", home / "hf", cwd=home)
    assert exported.returncode == 0, exported.stderr
    for dtype in ("float32", "float16", "bfloat16", "q8_0"):
        exported = cli("export", home / "run", "--format", "gguf", "--dtype", dtype, "--out", home / dtype, cwd=home)
        assert exported.returncode == 0, exported.stderr
    return home


@pytest.fixture(scope="session")
def llama_server(tuned: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of `llama-cpp-python` with the tuned model."""
    port = free_port()
    command = ["--model", str(tuned / "float32" / "model.gguf"), "--port", str(port), "--n_ctx", "256", "--n_threads", "1"]
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with log.open("w") as output:
        words = [sys.executable, "-m", "llama_cpp.server", *command, "--type_k", "0", "--type_v", "0"]
        server = subprocess.Popen(words, stdout=output, stderr=output)
    try:
        until(lambda: server.poll() is not None or answers(port), 300.0)
        assert server.poll() is None, log.read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/v1/models").status_code == 200
    except httpx.HTTPError:
        return False
