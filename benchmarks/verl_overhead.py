"""What share of a step with the backbone verl is not verl's own work: the gateway, the agents, judging, weighing, moving rows.

    python benchmarks/verl_overhead.py [--steps 20] [--workers 1]

plays the quickstart's project. verl's own work is what its engines and workers did, as measured around the calls of them:
`time/engine_s` (at least one request under way) and `verl/timing_s/*`. Everything else of `time/step_s` is overhead.
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


def main() -> None:
    """Run, and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        made = QuickstartProject.make(Path(directory))
        project = QuickstartProject(made, Path(directory) / "state")
        settings = {
            "trainer_common.total_training_steps": arguments.steps + WARM_UP,
            "trainer_common.n_gpus_per_node": arguments.workers,
            "trainer_common.val_before_train": "false",
        }
        chosen = [f"--set={key}={value}" for key, value in settings.items()]
        ended = project.cli("run", "--conf", "tune.yaml", "--backbone", "verl", *chosen, timeout=3600)
        if ended.returncode:
            sys.exit(ended.stderr)
        rows = project.metrics
    shares, steps = [], []
    for row, following in zip(rows[WARM_UP:], rows[WARM_UP + 1 :], strict=False):
        # Weights are handed over after a step is reported, so their time is reported with the next one.
        own = row["time/engine_s"] + sum(value for name, value in row.items() if name.startswith("verl/timing_s/"))
        own += following["verl/timing_s/update_weights"] - row["verl/timing_s/update_weights"]
        shares.append(1 - own / row["time/step_s"])
        steps.append(row["time/step_s"])
    print(
        f"steps {len(shares)}  step {statistics.median(steps):.2f} s  overhead {100 * statistics.median(shares):.1f} %", end="  "
    )
    print(f"(from {100 * min(shares):.1f} to {100 * max(shares):.1f})")


if __name__ == "__main__":
    main()
