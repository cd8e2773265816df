"""Stages of one YAML: a new tiny model learns from demonstrations, then by `grpo`, on the task of tutorial/support_tickets.

Prints the greedy reward on the validation tasks with random weights, after the warm start and after `grpo`, and the CPU seconds
of the whole command.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from algorithms import read_rewards, run

TASK = Path(__file__).parents[1] / "tutorial" / "support_tickets"
STAGES = """
  stages:
    - name: warm_start
      demonstrations: {{file: demos.jsonl, tiny: true, epochs: {epochs}, validate_before: true}}
    - name: rl
      trainer_common: {{total_training_steps: {steps}, test_freq: -1}}
"""


def main() -> None:
    """Print a row per seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--steps", type=int, default=100)
    chosen = parser.parse_args()
    print("| seed | random weights | after the warm start | after grpo | CPU s |")
    print("|---|---|---|---|---|")
    for seed in range(chosen.seeds):
        with tempfile.TemporaryDirectory() as made:
            home = shutil.copytree(TASK, Path(made) / "project", ignore=shutil.ignore_patterns("model", "launcher_record"))
            conf = home / "tune.yaml"
            conf.write_text(conf.read_text(encoding="utf-8") + STAGES.format(epochs=chosen.epochs, steps=chosen.steps))
            spent = run(["run", "--conf", "tune.yaml", "--set", f"seed={seed}"], home)
            runs = home / "launcher_record"
            started = [read_rewards(runs / f"tickets.1-warm_start-warm-start-{when}.eval")[0] for when in ("before", "after")]
            rewards = [*started, read_rewards(runs / "tickets.2-rl")[-1]]
            print(f"| {seed} | {' | '.join(f'{reward:.2f}' for reward in rewards)} | {spent:.0f} |", flush=True)


if __name__ == "__main__":
    main()
