"""A run of hours in which a tenth of the episodes fail and the process is killed: memory, descriptors and bytes per step.

`python benchmarks/soak/soak.py --minutes 120`. A row is printed every few minutes, and a verdict at the end. Every kill is at
a random moment of a printed seed, and the run is resumed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from attrs import frozen

SETTINGS = (
    "--backbone=local",
    "--set=rollout.user_workflow=./soak_agent.py:SoakAgent",
    "--set=rollout.episode_timeout_s=5",
    "--set=rollout.failure_budget=1.0",
    "--set=data.train_batch_size=4",
    "--set=rollout.num_repeat=4",
    "--set=trainer_common.total_training_steps=1000000",
    "--set=trainer_common.val_before_train=false",
    "--set=trainer_common.test_freq=50",
    "--set=trainer_common.save_freq=25",
    "--set=trainer_common.max_checkpoints_to_keep=2",
    "--set=trainer_common.optim.lr=1e-5",
    "--set=trainer_common.optim.lr_scheduler_type=constant",
)


@frozen
class Look:
    """What a run uses at one moment."""

    step: int
    rss_mb: float
    descriptors: int
    threads: int
    children: int
    directory_mb: float


def look(process: psutil.Process, run: Path) -> Look:
    """Look at a process and at its run directory."""
    rows = (run / "metrics.jsonl").read_bytes().splitlines() if (run / "metrics.jsonl").exists() else []
    step = json.loads(rows[-1])["step"] if rows else 0
    size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    with process.oneshot():
        return Look(
            step,
            process.memory_info().rss / 2**20,
            process.num_fds(),
            process.num_threads(),
            len(process.children(recursive=True)),
            size / 2**20,
        )


def main() -> None:
    """Run, look, kill and resume until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kill-every-minutes", type=float, default=15)
    parser.add_argument("--look-every-s", type=float, default=60)
    parser.add_argument("--project", type=Path, help="a project of `astuner quickstart`; made if it is not given")
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    home = Path(tempfile.mkdtemp(prefix="soak-")) / "my-agent"
    if asked.project:
        shutil.copytree(asked.project, home, ignore=shutil.ignore_patterns("launcher_record"))
    else:
        subprocess.run([sys.executable, "-m", "astuner", "quickstart", home.name, "--no-run"], cwd=home.parent, check=True)
    shutil.copy(Path(__file__).with_name("soak_agent.py"), home)
    run, end, starts, codes = home / "launcher_record" / "calculator", time.monotonic() + 60 * asked.minutes, 0, []
    print(f"seed {asked.seed}, {home}")
    print(f"{'minute':>7}{'start':>6}{'step':>7}{'RSS MB':>8}{'fds':>5}{'threads':>8}{'children':>9}{'run MB':>8}", flush=True)
    began = time.monotonic()
    while time.monotonic() < end:
        command = [sys.executable, "-m", "astuner", "run", "--conf", "tune.yaml", *SETTINGS, *(["--resume"] if starts else [])]
        with (home / f"said-{starts}.txt").open("wb") as said:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            process = subprocess.Popen(command, cwd=home, stdout=said, stderr=said, env=environment, start_new_session=True)
        watched, starts = psutil.Process(process.pid), starts + 1
        until = min(end, time.monotonic() + 60 * asked.kill_every_minutes * rng.uniform(0.5, 1.5))
        number = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        while time.monotonic() < until and process.poll() is None:
            try:
                process.wait(min(asked.look_every_s, max(0.0, until - time.monotonic())))
            except subprocess.TimeoutExpired:
                seen = look(watched, run)
                print(
                    f"{(time.monotonic() - began) / 60:>7.1f}{starts:>6}{seen.step:>7}{seen.rss_mb:>8.0f}{seen.descriptors:>5}"
                    f"{seen.threads:>8}{seen.children:>9}{seen.directory_mb:>8.1f}",
                    flush=True,
                )
        process.send_signal(number if time.monotonic() < end else signal.SIGINT)
        codes.append(process.wait(120))
        print(f"        ended with {codes[-1]}", flush=True)
        if codes[-1] not in (130, -9):
            print((home / f"said-{starts - 1}.txt").read_text(errors="replace")[-3000:])
            break
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [row["step"] for row in rows if row["kind"] == "train"]
    tracebacks = sum("Traceback" in path.read_text(errors="replace") for path in home.glob("said-*.txt"))
    whole = steps == list(range(1, len(steps) + 1))
    print(f"{len(steps)} steps, each once and in order: {whole}; starts {starts}, exit codes {codes}")
    print(f"outputs with a traceback: {tracebacks}")


if __name__ == "__main__":
    main()
