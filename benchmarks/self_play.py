"""Kuhn poker in self-play: the exact exploitability before and after, with the baseline of a role and with that of a deal.

Each seed makes its own tiny model by the commands of `tutorial/kuhn_poker`, and is tuned from it with each estimator.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

TUTORIAL = Path(__file__).parents[1] / "tutorial" / "kuhn_poker"
COMMAND = re.compile(r"^astuner ((?:warm-start|run) --conf tune\.yaml[^\n]*)$", re.MULTILINE)
ROW = re.compile(r"^ *([\d.]+) antes +([\d.]+)", re.MULTILINE)
ESTIMATORS = ("rae", "grpo", "dr_grpo")


def run(command: list[str], home: Path) -> tuple[str, float]:
    """Run a command of Python; return what it printed, and its CPU seconds."""
    before = os.times()
    done = subprocess.run([sys.executable, *command], cwd=home, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{shlex.join(command)} in {home} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    after = os.times()
    return done.stdout, after.children_user + after.children_system - before.children_user - before.children_system


def measure(model: Path, home: Path) -> float:
    """Return the exploitability of a model, in pots."""
    printed, _ = run(["exploitability.py", str(model)], home)
    found = ROW.search(printed)
    assert found, printed
    return float(found[2])


def main() -> None:
    """Print a row per estimator, with the exploitability before and after for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--estimators", nargs="+", default=ESTIMATORS)
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="another value of a key of tune.yaml")
    parser.add_argument("--keep", type=Path, help="leave the copies of the tutorial, with their runs, in this directory")
    arguments = parser.parse_args()
    warm_start, tune, *_ = map(shlex.split, COMMAND.findall((TUTORIAL / "README.md").read_text(encoding="utf-8")))
    cells: dict[str, list[str]] = {name: [] for name in arguments.estimators}
    spent = dict.fromkeys(arguments.estimators, 0.0)
    with tempfile.TemporaryDirectory() if arguments.keep is None else nullcontext(str(arguments.keep)) as made:
        for seed in arguments.seeds:
            left_out = shutil.ignore_patterns("launcher_record", "model", "__pycache__")
            home = Path(shutil.copytree(TUTORIAL, Path(made) / str(seed), ignore=left_out))
            settings = [f"--set={setting}" for setting in (f"seed={seed}", *arguments.set)]
            _, warmed_s = run(["-m", "astuner", *warm_start, *settings], home)
            before = measure(home / "model", home)
            for name in arguments.estimators:
                more = [f"--set=experiment_name={name}", f"--set=trainer_common.algorithm.adv_estimator={name}"]
                _, tuned_s = run(["-m", "astuner", *tune, *settings, *more], home)
                checkpoints = home / "launcher_record" / name / "checkpoints"
                last = max(checkpoints.glob("step_*"), key=lambda folder: int(folder.name.removeprefix("step_")))
                cells[name].append(f"{before:.3f} → {measure(last, home):.3f}")
                spent[name] += warmed_s + tuned_s
                print(f"seed {seed} {name}: {cells[name][-1]}, {warmed_s + tuned_s:.0f} CPU s", file=sys.stderr, flush=True)
    print(f"| estimator | {' | '.join(f'seed {seed}' for seed in arguments.seeds)} | CPU s |")
    print(f"|---|{'---|' * len(arguments.seeds)}---|")
    for name, row in cells.items():
        print(f"| `{name}` | {' | '.join(row)} | {spent[name] / len(row):.0f} |")


if __name__ == "__main__":
    main()
