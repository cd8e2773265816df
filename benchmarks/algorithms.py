"""The quickstart's task with each loss and each estimator: validation reward after the same number of steps, and CPU seconds.

Each seed makes its own tiny model by `astuner quickstart`, from which all of its runs begin. One that has had no signal in 20
steps in a row ends before its last validation, and is printed as `ended`.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ALGORITHM = "trainer_common.algorithm"
SAMPLES = {"trainer_common.loss_agg_mode": "seq-mean-token-mean"}
CHOICES: Mapping[str, Mapping[str, str]] = {
    "ppo_clip, grpo": {},
    "gspo": {f"{ALGORITHM}.policy_loss": "gspo", **SAMPLES},
    "gmpo": {f"{ALGORITHM}.policy_loss": "gmpo", **SAMPLES},
    "cispo": {f"{ALGORITHM}.policy_loss": "cispo"},
    "sapo": {f"{ALGORITHM}.policy_loss": "sapo", **SAMPLES},
    "dppo": {f"{ALGORITHM}.policy_loss": "dppo"},
    "dr_grpo": {f"{ALGORITHM}.adv_estimator": "dr_grpo"},
    "rloo": {f"{ALGORITHM}.adv_estimator": "rloo"},
    "opo": {f"{ALGORITHM}.adv_estimator": "opo"},
    **{
        name: {f"{ALGORITHM}.adv_estimator": name}
        for name in (
            *("pass_at_k", "remax", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "gdpo", "turn_level", "rae"),
            *("clip_cov", "kl_cov", "rejection_sampling", "sft"),
        )
    },
}
"""What differs from the defaults, a loss or an estimator; the other is `ppo_clip` or `grpo`."""


def run(arguments: Sequence[str], home: Path, *, may_end: bool = False) -> float:
    """Run `astuner` in a directory, and return its CPU seconds, children included; `may_end` allows it to fail."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "astuner", *arguments]
    subprocess.run(command, cwd=home, check=not may_end, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def read_rewards(directory: Path) -> list[float]:
    """Return the mean reward of each validation, in order."""
    rows = map(json.loads, (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [row["val/reward/mean"] for row in rows if row["kind"] == "validation"]


def main() -> None:
    """Print a row per algorithm, with one cell per seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--mini-batches", type=int, default=4, help="updates of a step: with one, all losses are alike")
    parser.add_argument("--only", nargs="*", choices=list(CHOICES), default=list(CHOICES))
    parser.add_argument("--project", type=Path, help="a project of the quickstart with its model, for all seeds")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        projects = [chosen.project or Path(made) / str(seed) / "my-agent" for seed in range(chosen.seeds)]
        for seed, project in enumerate(projects):
            if chosen.project is None:
                project.parent.mkdir()
                run(["quickstart", "my-agent", "--seed", str(seed), "--no-run"], project.parent)
        print(f"| algorithm | {' | '.join(f'seed {seed}' for seed in range(chosen.seeds))} | CPU s |")
        print(f"|---|{'---|' * chosen.seeds}---|")
        for name in chosen.only:
            rewards, spent = [], 0.0
            for seed, project in enumerate(projects):
                experiment = f"{name.replace(', ', '-')}-{seed}"
                settings = {
                    "experiment_name": experiment,
                    "seed": str(seed),
                    "trainer_common.total_training_steps": str(chosen.steps),
                    "trainer_common.mini_batch_num": str(chosen.mini_batches),
                    **CHOICES[name],
                }
                wanted = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
                spent += run(["run", "--conf", "tune.yaml", *wanted], project, may_end=True)
                before, *later = read_rewards(project / "launcher_record" / experiment)
                rewards.append(f"{before:.2f} → {later[-1]:.2f}" if later else f"{before:.2f} ended")
            print(f"| {name} | {' | '.join(rewards)} | {spent / chosen.seeds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
