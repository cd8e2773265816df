"""The tutorials of a task of one's own, for several seeds: validation rewards, and the time of warm start and run.

`--tutorials coding_agents` needs the program that its page installs.
"""

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
import time
from contextlib import nullcontext
from pathlib import Path

TUTORIALS = Path(__file__).parents[1] / "tutorial"
NAMES = ("support_tickets", "opposites", "robot")
WITH_PROGRAMS = ("coding_agents",)
ROW = "{untrained:>11.3f}{warm_started:>14.3f}{tuned:>8.3f}{episodes:>10}{cpu_s:>8.0f}{minutes:>9.1f}"
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


def count_episodes(run: Path) -> int:
    """Return how many episodes a run has played."""
    lines = (line for file in (run / "episodes").glob("*.jsonl") for line in file.read_text(encoding="utf-8").splitlines())
    return sum(json.loads(line)["kind"] == "episode" for line in lines)


def follow(tutorial: Path, settings: list[str], keep: Path | None = None) -> dict[str, float]:
    """Train once; return the rewards of the new, the warm-started and the tuned model, episodes, CPU seconds and minutes.

    The work is done in a copy, which is left in the directory `keep`, if that is given.
    """
    with tempfile.TemporaryDirectory() if keep is None else nullcontext(str(keep)) as directory:
        made = shutil.ignore_patterns("agent", "model", "launcher_record")
        home = Path(shutil.copytree(tutorial, Path(directory) / tutorial.name, ignore=made))
        before, began = os.times(), time.monotonic()
        for command in read_commands(tutorial):
            more = [*(["--validate-before"] if "warm-start" in command else []), *settings]
            subprocess.run([sys.executable, "-m", "astuner", *command, *more], cwd=home, check=True, capture_output=True)
        after, minutes = os.times(), (time.monotonic() - began) / 60
        runs = {run.name: run for run in (home / "launcher_record").iterdir()}
        rewards = {name: read_rewards(run) for name, run in runs.items()}
        episodes = sum(map(count_episodes, runs.values()))
    (name,) = (name for name in runs if not name.endswith(".eval"))
    (untrained,) = rewards[f"{name}-warm-start-before.eval"]
    return {
        "untrained": untrained,
        "warm_started": rewards[name][0],
        "tuned": rewards[name][-1],
        "episodes": episodes,
        "cpu_s": round(after.children_user + after.children_system - before.children_user - before.children_system, 1),
        "minutes": round(minutes, 1),
    }


def main() -> None:
    """Follow one tutorial after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tutorials", nargs="+", choices=(*NAMES, *WITH_PROGRAMS), default=NAMES)
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="another value of a key of tune.yaml")
    parser.add_argument("--keep", type=Path, help="leave the copies of the tutorials, with their runs, in this directory")
    arguments = parser.parse_args()
    rows = []
    print("tutorial          seed   untrained  warm-started   tuned  episodes   CPU s  minutes")
    for name in arguments.tutorials:
        for seed in arguments.seeds:
            settings = [f"--set={setting}" for setting in (f"seed={seed}", *arguments.set)]
            found = follow(TUTORIALS / name, settings, arguments.keep and arguments.keep / str(seed))
            rows.append({"tutorial": name, "seed": seed, **found})
            print(f"{name:<18}{seed:>4}", ROW.format(**found), flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
