"""Corrections with engines whose log-probabilities are not the trainer's, on the quickstart's task.

    python benchmarks/corrections.py [--seeds 3] [--steps 40] [--engines hot …] [--only "token, truncated at 2" …]

Each seed makes its own tiny model by `astuner quickstart`, and has its learning rate. The engines are those of off_engines.py.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms import ALGORITHM, run

CORRECTIONS: Mapping[str, Mapping[str, str]] = {
    "none": {},
    "token, truncated at 2": {"rollout_is_threshold": "2"},
    "token, truncated at 8": {"rollout_is_threshold": "8"},
    "token, masked beyond 0.5, 2": {"rollout_is_threshold": "2", "rollout_is_lower": "0.5"},
    "token, masked beyond 0.5, 8": {"rollout_is_threshold": "8", "rollout_is_lower": "0.5"},
    "sequence, truncated at 2": {"rollout_is": "sequence", "rollout_is_threshold": "2"},
    "seq_mean_k3, rejected above 0.01": {"rollout_rs": "seq_mean_k3", "rollout_rs_threshold": "0.01"},
}
"""By what has a weight, and what becomes of it; keys below `trainer_common.algorithm`."""

OFF_ENGINES = Path(__file__).with_name("off_engines.py")
ENGINES = {"own": "auto", **{name: f"{OFF_ENGINES}:{name.capitalize()}" for name in ("bfloat16", "hot", "cold", "misreporting")}}
"""Values of `rollout.name`."""

EVERY = 10
"""Steps between validations."""


def train(project: Path, experiment: str, settings: Mapping[str, str], more: Sequence[str]) -> tuple[list[dict[str, Any]], bool]:
    """Return the metrics of a run, and whether it ended early: 20 steps in a row in which all episodes had the same reward."""
    wanted = [*(f"{key}={value}" for key, value in settings.items()), f"experiment_name={experiment}", *more]
    stopped = False
    try:
        run(["run", "--conf", "tune.yaml", *(f"--set={setting}" for setting in wanted)], project)
    except subprocess.CalledProcessError:
        stopped = True
    lines = (project / "launcher_record" / experiment / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines], stopped


def average(rows: Sequence[Mapping[str, Any]], *names: str) -> float | None:
    """Return the mean over the rows of the first of these metrics that they have."""
    found = ([row[name] for row in rows if name in row] for name in names)
    return next((statistics.mean(values) for values in found if values), None)


def main() -> None:
    """Print a row per engine and correction, with the mean reward of the validations in the second half for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--engines", nargs="*", choices=list(ENGINES), default=list(ENGINES))
    parser.add_argument("--only", nargs="*", choices=list(CORRECTIONS), default=list(CORRECTIONS))
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="another value of a key of tune.yaml")
    parser.add_argument("--projects", type=Path, help="a folder with a project of the quickstart for each seed, named by it")
    chosen = parser.parse_args()
    common = {
        "trainer_common.total_training_steps": str(chosen.steps),
        "trainer_common.test_freq": str(EVERY),
        "trainer_common.mini_batch_num": "4",
    }
    with tempfile.TemporaryDirectory() as made:
        home = chosen.projects or Path(made)
        for seed in range(chosen.seeds):
            if not (home / str(seed)).exists():
                run(["quickstart", str(seed), "--seed", str(seed), "--no-run"], home)
        print(f"| engine | correction | {' | '.join(f'seed {seed}' for seed in range(chosen.seeds))} | k3 | beyond | CPU s |")
        print(f"|---|---|{'---|' * chosen.seeds}---|---|---|", flush=True)
        for engine in chosen.engines:
            for name in chosen.only:
                cells, steps, before = [], [], resource.getrusage(resource.RUSAGE_CHILDREN)
                for seed in range(chosen.seeds):
                    own = {f"{ALGORITHM}.{key}": value for key, value in CORRECTIONS[name].items()}
                    settings = {**common, **own, "seed": str(seed), "rollout.name": ENGINES[engine]}
                    experiment = f"{engine}-{list(CORRECTIONS).index(name)}"
                    rows, stopped = train(home / str(seed), experiment, settings, chosen.set)
                    steps += [row for row in rows if row["kind"] != "validation"]
                    late = [row for row in rows if row["kind"] == "validation" and row["step"] >= chosen.steps // 2]
                    reward = average(late, "val/reward/mean")
                    cells.append(("" if reward is None else f"{reward:.2f}") + (" ended" if stopped else ""))
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                beyond = average(steps, "correction/rejected_mean", "correction/bounded_mean")
                cells += [f"{average(steps, 'mismatch/k3_kl') or 0:.1g}", "" if beyond is None else f"{beyond:.0%}"]
                print(f"| {engine} | {name} | {' | '.join(cells)} | {spent / chosen.seeds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
