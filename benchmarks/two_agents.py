"""Two agents that agree on a language: with adapters for each, with one side that stays as it was, and with one adapter for both.

Each seed makes its own tiny model by the first stage of `tutorial/two_agents`, from which all rows begin.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from algorithms import read_rewards, run

TUTORIAL = Path(__file__).parents[1] / "tutorial" / "two_agents"
ADAPTERS = "adapters: {speaker: {}, listener: {}}"
ROWS = {
    "both": ADAPTERS,
    "speaker": "adapters: {speaker: {}}",
    "listener": "adapters: {listener: {}}",
    "shared": "adapters: {}",
}


def main() -> None:
    """Print a row for each choice of adapters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=ROWS, default=list(ROWS))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        homes = [Path(made) / str(seed) for seed in range(chosen.seeds)]
        spent_on_words = []
        for seed, home in enumerate(homes):
            shutil.copytree(TUTORIAL, home, ignore=shutil.ignore_patterns("launcher_record", "model", "__pycache__"))
            command = ["warm-start", "--conf", "tune.yaml", "--set", "stage=words", "--set", f"seed={seed}"]
            spent_on_words.append(run([*command, "--demos", "demos.jsonl", "--tiny", "--out", "model"], home))
        print(f"| adapters | {' | '.join(f'seed {seed}' for seed in range(chosen.seeds))} | CPU s |")
        print(f"|---|{'---|' * chosen.seeds}---|")
        for name in chosen.only:
            rewards, spent = [], sum(spent_on_words)
            for seed, home in enumerate(homes):
                written = (home / "tune.yaml").read_text(encoding="utf-8")
                (home / "row.yaml").write_text(written.replace(ADAPTERS, ROWS[name]), encoding="utf-8")
                settings = ("stage=language", "model.path=./model", f"seed={seed}", f"experiment_name={name}")
                given = [part for setting in settings for part in ("--set", setting)]
                spent += run(["run", "--conf", "row.yaml", *given], home)
                before, *_, after = read_rewards(home / "launcher_record" / f"{name}.2-language")
                rewards.append(f"{before:.2f} → {after:.2f}")
            print(f"| {name} | {' | '.join(rewards)} | {spent / chosen.seeds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
