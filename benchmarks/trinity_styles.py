"""What each synchronizer style of Trinity's does to the time of a step and to staleness, side by side.

    python benchmarks/trinity_styles.py [--steps 12]

runs the quickstart's project with each style, one after the other, and prints the median time of a step, how far training lay
behind the weights that sampled (mean and most, in steps), and the mean reward of the last third. On the CPU explorer and trainer
share the cores, so that what overlaps gains less than it does on GPUs of their own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from quickstart_project import QuickstartProject

WARM_UP = 2
"""The first steps compile and fill caches."""
STYLES = {
    "fixed": "{sync_style: fixed}",
    "fixed, sync_offset 1": "{sync_style: fixed, sync_offset: 1}",
    "fixed, sync_interval 2": "{sync_style: fixed, sync_interval: 2}",
    "trainer_driven, sync_interval 2": "{sync_style: trainer_driven, sync_interval: 2}",
    "explorer_driven": "{sync_style: explorer_driven}",
    "fully_async": "{sync_style: fully_async}",
}


def main() -> None:
    """Run, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--only", nargs="*", default=list(STYLES))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        made = QuickstartProject.make(Path(directory))
        print("| style | step, median s | staleness mean | most | reward of the last third |\n|---|---|---|---|---|")
        for style in arguments.only:
            print(f"| {style} | {measure(made, Path(directory), style, arguments.steps)} |", flush=True)


def measure(made: Path, directory: Path, style: str, steps: int) -> str:
    """Return the cells of a style."""
    with QuickstartProject.copy_beside(made, directory / style.replace(" ", "_").replace(",", "")) as project:
        with (project.home / "tune.yaml").open("a", encoding="utf-8") as file:
            file.write(f"\ntrinity: {{synchronizer: {STYLES[style]}}}\n")
        settings = {"total_training_steps": steps + WARM_UP, "val_before_train": "false", "optim.lr_scheduler_type": "constant"}
        chosen = [f"--set=trainer_common.{key}={value}" for key, value in settings.items()]
        ended = project.cli("run", "--conf", "tune.yaml", "--backbone", "trinity", *chosen, timeout=3600)
        if ended.returncode:
            sys.exit(ended.stderr)
        rows = project.metrics[WARM_UP:]
    seconds = statistics.median(row["time/step_s"] for row in rows)
    mean, most = statistics.mean(row["staleness/mean"] for row in rows), max(row["staleness/max"] for row in rows)
    reward = statistics.mean(row["reward/mean"] for row in rows[-(len(rows) // 3) :])
    return f"{seconds:.2f} | {mean:.2f} | {most:.0f} | {reward:.2f}"


if __name__ == "__main__":
    main()
