"""Memory: a `dataset_file` of 1 GB is streamed, and the resident size of a run stays flat over many steps."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int | str = "self") -> int:
    """Return the resident set size of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def measure_streaming(gigabytes: float) -> dict[str, float]:
    """Write a large file, read it through the reader, and return how much the resident size grew."""
    from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
    from astuner.settings.config.sections import DatasetFileSection, FileSplit

    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "large.jsonl"
        padding = "x" * 900
        rows = 0
        with path.open("w") as file:
            while file.tell() < gigabytes * 1e9:
                file.write(json.dumps({"question": f"{rows} {padding}", "answer": str(rows)}) + "\n")
                rows += 1
        reader = DatasetFileReader(DatasetFileSection(training=FileSplit(file_path=str(path))), Path(home))
        before, peak, stop = resident_bytes(), 0, threading.Event()

        def watch() -> None:
            nonlocal peak
            while not stop.wait(0.02):
                peak = max(peak, resident_bytes())

        watcher = threading.Thread(target=watch)
        watcher.start()
        began = time.perf_counter()
        first = None
        count = 0
        for _ in reader.read("train"):
            first = first or time.perf_counter() - began
            count += 1
        stop.set()
        watcher.join()
    assert count == rows
    return {"rows": rows, "growth_mb": (max(peak, before) - before) / 1e6, "first_task_s": first or 0.0}


def measure_flatness(project: Path, steps: int) -> list[tuple[int, float]]:
    """Run the project for many steps and return (step, resident MB) along the way."""
    name = f"memory-{int(time.time())}"
    command = [sys.executable, "-m", "astuner", "run", "--conf", "tune.yaml", "--backbone", "local"]
    command += [f"--set=experiment_name={name}", f"--set=trainer_common.total_training_steps={steps}"]
    command += [
        "--set=trainer_common.total_epochs=1000",
        "--set=trainer_common.save_freq=-1",
        "--set=trainer_common.test_freq=-1",
    ]
    command += ["--set=trainer_common.use_kl_loss=true", "--set=trainer_common.kl_loss_coef=0.001"]  # keeps every step an update
    process = subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics = project / "launcher_record" / name / "metrics.jsonl"
    found: list[tuple[int, float]] = []
    while process.poll() is None:
        time.sleep(0.5)
        reached = sum(1 for _ in metrics.open()) if metrics.exists() else 0
        if reached >= (found[-1][0] + steps // 10 if found else 1):
            found.append((reached, resident_bytes(process.pid) / 1e6))
    return found


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--project", type=Path, help="A project that `astuner quickstart --no-run` wrote.")
    parser.add_argument("--steps", type=int, default=500)
    arguments = parser.parse_args()
    print(json.dumps({"streaming": measure_streaming(arguments.gigabytes)}))
    if arguments.project:
        points = measure_flatness(arguments.project, arguments.steps)
        print(f"{'step':>6}{'RSS MB':>9}")
        for step, size in points:
            print(f"{step:>6}{size:>9.1f}")


if __name__ == "__main__":
    main()
