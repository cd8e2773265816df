"""The tutorials of a task of one's own, for several seeds: validation rewards, and the CPU time of warm start and run."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TUTORIALS = Path(__file__).parents[1] / "tutorial"
NAMES = ("support_tickets", "opposites", "robot")
ROW = "{untrained:>11.3f}{warm_started:>14.3f}{tuned:>8.3f}{cpu_s:>8.0f}"
COMMAND = re.compile(r"^astuner ((?:warm-start|run) --conf tune\.yaml(?!.*--backbone).*)$", re.MULTILINE)


def read_commands(tutorial: Path) -> list[list[str]]:
    """Return the arguments of the two commands that train, as the page of a tutorial has them."""
    commands = [shlex.split(found) for found in COMMAND.findall((tutorial / "README.md").read_text(encoding="utf-8"))]
    assert [command[0] for command in commands] == ["warm-start", "run"], tutorial
    return commands


def read_rewards(run: Path) -> list[float]:
    """Return the mean reward of each validation of a run, in order."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [row["val/reward/mean"] for row in rows if row["kind"] == "validation"]


def follow(tutorial: Path, settings: list[str]) -> dict[str, float]:
    """Train once; return the rewards of the new, the warm-started and the tuned model, and CPU seconds."""
    with tempfile.TemporaryDirectory() as directory:
        made = shutil.ignore_patterns("model", "launcher_record")
        home = Path(shutil.copytree(tutorial, Path(directory) / tutorial.name, ignore=made))
        before = os.times()
        for command in read_commands(tutorial):
            subprocess.run([sys.executable, "-m", "astuner", *command, *settings], cwd=home, check=True, capture_output=True)
        after = os.times()
        runs = {run.name: read_rewards(run) for run in (home / "launcher_record").iterdir()}
    (name,) = (name for name in runs if not name.endswith(".eval"))
    (untrained,) = runs[f"{name}-warm-start-before.eval"]
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return {"untrained": untrained, "warm_started": runs[name][0], "tuned": runs[name][-1], "cpu_s": round(cpu_s, 1)}


def main() -> None:
    """Follow one tutorial after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tutorials", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="another value of a key of tune.yaml")
    arguments = parser.parse_args()
    rows = []
    print("tutorial          seed   untrained  warm-started   tuned   CPU s")
    for name in arguments.tutorials:
        for seed in arguments.seeds:
            found = follow(TUTORIALS / name, [f"--set={setting}" for setting in (f"seed={seed}", *arguments.set)])
            rows.append({"tutorial": name, "seed": seed, **found})
            print(f"{name:<18}{seed:>4}", ROW.format(**found), flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
