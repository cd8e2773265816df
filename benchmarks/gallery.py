"""The tutorials of a task of one's own, for several seeds: success on tasks that were not trained, time, and a coin as reward.

`--write` puts the tables into their pages. `--tutorials coding_agents` needs the program that its page installs.
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
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import yaml

TUTORIALS = Path(__file__).parents[1] / "tutorial"
COIN = TUTORIALS / "coin.py"
NAMES = ("support_tickets", "opposites", "robot", "learn_to_ask", "frozen_lake", "werewolves")
WITH_PROGRAMS = ("coding_agents",)
ROW = "{before:>8.3f}{after:>8.3f}{reward_before:>15.3f}{reward_after:>14.3f}{episodes:>10}{cpu_s:>8.0f}{minutes:>9.1f}"
PLACE = re.compile(r"(<!-- gallery -->\n).*?(<!-- /gallery -->)", re.DOTALL)
"""Of the table in a page."""
COMMAND = re.compile(r"^astuner ((?:warm-start|run) --conf tune\.yaml(?!.*--backbone).*)$", re.MULTILINE)


def read_commands(tutorial: Path) -> list[list[str]]:
    """Return the arguments of the two commands that train, as the page of a tutorial has them."""
    commands = [shlex.split(found) for found in COMMAND.findall((tutorial / "README.md").read_text(encoding="utf-8"))]
    assert [command[0] for command in commands] == ["warm-start", "run"], tutorial
    return commands


def read_validations(run: Path) -> list[dict[str, float]]:
    """Return the rows of the validations of a run, in order."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["kind"] == "validation"]


def toss_coins(tutorial: Path) -> list[str]:
    """Return the settings of the control: the judge of the tutorial says what a success is, and a coin is the reward."""
    judge = yaml.safe_load((tutorial / "tune.yaml").read_text(encoding="utf-8"))["astuner"]["task_judge"]["judge_protocol"]
    judges = [{"judge": judge, "weight": 0}, {"judge": f"{COIN}:Coin"}]
    return ["task_judge.judge_protocol=null", f"task_judge.judges={json.dumps(judges)}"]


def count_episodes(run: Path) -> int:
    """Return how many episodes a run has played."""
    lines = (line for file in (run / "episodes").glob("*.jsonl") for line in file.read_text(encoding="utf-8").splitlines())
    return sum(json.loads(line)["kind"] == "episode" for line in lines)


def follow(tutorial: Path, settings: list[str], keep: Path | None = None, control: Sequence[str] = ()) -> dict[str, float]:
    """Train once; return success and reward before and after the run, episodes, CPU seconds and minutes.

    `settings` hold for both commands, those of `control` for the run alone. The work is done in a copy, which is left in the
    directory `keep`, if that is given.
    """
    with tempfile.TemporaryDirectory() if keep is None else nullcontext(str(keep)) as directory:
        made = shutil.ignore_patterns("agent", "model", "launcher_record")
        home = Path(shutil.copytree(tutorial, Path(directory) / tutorial.name, ignore=made))
        before, began = os.times(), time.monotonic()
        for command in read_commands(tutorial):
            more = [f"--set={one}" for one in (*settings, *(control if command[0] == "run" else ()))]
            subprocess.run([sys.executable, "-m", "astuner", *command, *more], cwd=home, check=True, capture_output=True)
        after, minutes = os.times(), (time.monotonic() - began) / 60
        runs = list((home / "launcher_record").iterdir())
        (run,) = (run for run in runs if not run.name.endswith(".eval"))
        first, *_, last = read_validations(run)
        episodes = sum(map(count_episodes, runs))
    return {
        "before": first["val/success/rate"],
        "after": last["val/success/rate"],
        "reward_before": first["val/reward/mean"],
        "reward_after": last["val/reward/mean"],
        "episodes": episodes,
        "cpu_s": round(after.children_user + after.children_system - before.children_user - before.children_system, 1),
        "minutes": round(minutes, 1),
    }


def write_table(tutorial: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Put the rows of a tutorial into its page."""
    table = ["| reward | seed | success before → after | CPU s |", "|---|---|---|---|"]
    for row in rows:
        before, after = (f"{100 * row[when]:.0f}" for when in ("before", "after"))
        table.append(f"| {row['reward']} | {row['seed']} | {before} → {after} % | {row['cpu_s']:.0f} |")
    page = tutorial / "README.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(PLACE.sub(lambda found: found[1] + "\n".join(table) + "\n" + found[2], text), encoding="utf-8")


def main() -> None:
    """Follow one tutorial after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tutorials", nargs="+", choices=(*NAMES, *WITH_PROGRAMS), default=NAMES)
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="another value of a key of tune.yaml")
    parser.add_argument("--no-control", action="store_true", help="without the run whose reward is a coin")
    parser.add_argument("--write", action="store_true", help="put the tables into the pages of the tutorials")
    parser.add_argument("--keep", type=Path, help="leave the copies of the tutorials, with their runs, in this directory")
    arguments = parser.parse_args()
    rows = []
    print("tutorial          reward    seed  before   after  reward before  reward after  episodes   CPU s  minutes")
    for name in arguments.tutorials:
        controls = () if arguments.no_control or name in WITH_PROGRAMS else (("a coin", arguments.seeds[0]),)
        for reward, seed in (*(("the judge's", seed) for seed in arguments.seeds), *controls):
            control = toss_coins(TUTORIALS / name) if reward == "a coin" else []
            kept = arguments.keep and arguments.keep / f"{seed}{'-coin' if control else ''}"
            found = follow(TUTORIALS / name, [f"seed={seed}", *arguments.set], kept, control)
            rows.append({"tutorial": name, "reward": reward, "seed": seed, **found})
            print(f"{name:<18}{reward:<11}{seed:>3}", ROW.format(**found), flush=True)
        if arguments.write:
            write_table(TUTORIALS / name, [row for row in rows if row["tutorial"] == name])
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
