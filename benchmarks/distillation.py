"""What on-policy distillation saves: the quickstart's agent by reinforcement learning, and its fresh model taught by the result.

Each seed makes its own tiny model by `astuner quickstart`. The control plays as few episodes, without a teacher.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

from algorithms import ALGORITHM, read_rewards, run

EPISODES = 2560
SHARE = 5
"""What is taught has this part of the episodes."""
STEPS = 40
TAUGHT: Mapping[str, str] = {
    "data.train_batch_size": "8",
    "rollout.num_repeat": "1",
    "trainer_common.total_training_steps": str(EPISODES // SHARE // 8),
    f"{ALGORITHM}.adv_estimator": "opd",
    f"{ALGORITHM}.opd.teacher": f"launcher_record/teacher/checkpoints/step_{STEPS}",
    "trainer_common.use_kl_loss": "false",
}
RUNS: Mapping[str, Mapping[str, str]] = {
    "teacher": {"trainer_common.total_training_steps": str(STEPS)},
    "opd": TAUGHT,
    "control": {"trainer_common.total_training_steps": str(STEPS // SHARE), "trainer_common.optim.lr_warmup_steps": "1"},
}
NAMES = {"teacher": f"grpo, {EPISODES:,} episodes", "opd": f"opd, {EPISODES // SHARE}", "control": f"grpo, {EPISODES // SHARE}"}


def main() -> None:
    """Print a row per way of learning, with the greedy rewards before and after for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    found: dict[str, list[str]] = {name: [] for name in RUNS}
    spent = dict.fromkeys(RUNS, 0.0)
    with tempfile.TemporaryDirectory() as made:
        for seed in range(seeds):
            home = Path(made) / str(seed)
            home.mkdir()
            run(["quickstart", "my-agent", "--seed", str(seed), "--no-run"], home)
            for name, settings in RUNS.items():
                wanted = {"experiment_name": name, "seed": str(seed), "trainer_common.logger": "[console]", **settings}
                changes = [part for key, value in wanted.items() for part in ("--set", f"{key}={value}")]
                spent[name] += run(["run", "--conf", "tune.yaml", *changes], home / "my-agent")
                before, *_, after = read_rewards(home / "my-agent" / "launcher_record" / name)
                found[name].append(f"{before:.2f} → {after:.2f}")
    print(f"| learning | {' | '.join(f'seed {seed}' for seed in range(seeds))} | CPU s |")
    print(f"|---|{'---|' * seeds}---|")
    for name, cells in found.items():
        print(f"| {NAMES[name]} | {' | '.join(cells)} | {spent[name] / seeds:.0f} |")


if __name__ == "__main__":
    main()
