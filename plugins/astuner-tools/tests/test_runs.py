"""`astuner runs`: what it prints for people, and as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit.command_line import CommandResult

Cli = Callable[..., CommandResult]


def row(step: int, reward: float, **more: float) -> dict[str, Any]:
    return {"step": step, "kind": "train", "reward/mean": reward, "time/step_s": 40.0, "tokens/generated": 1000.0, **more}


def validated(step: int, reward: float) -> dict[str, Any]:
    return {"step": step, "kind": "validation", "val/reward/mean": reward}


def test_runs_are_a_table(write_run, cli: Cli):
    planned = {"trainer_common": {"total_training_steps": 2}}
    run = write_run("a", rows=[validated(0, 0.25), row(1, 0.1), row(2, 0.5)], settings=planned)
    (run / "checkpoints" / "weights").write_bytes(bytes(3_000_000))
    write_run("b/c", status="interrupted")
    assert cli("runs").out.splitlines() == [
        "NAME  STATE        STEPS   REWARD          BEST VALIDATION  TIME        TOKENS  DISK",
        "a     finished     2 of 2  0.100 -> 0.500  0.250 at step 0  1 min 20 s  2,000   3 MB",
        "b/c   interrupted  0       -               -                0 s         0       0 MB",
    ]


def test_runs_are_a_document(write_run, cli: Cli):
    write_run("a", rows=[row(1, 0.1)])
    document = json.loads(cli("runs", "launcher_record", "--json").out)
    assert [(one["name"], one["status"], one["last_reward"]) for one in document["runs"]] == [("a", "finished", 0.1)]
    assert document["problems"] == []


def test_what_a_killed_save_left_is_named(write_run, cli: Cli):
    left = write_run("a", status="interrupted") / "checkpoints" / "writing_2"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"0" * 1_200_000)
    shown = cli("runs").err
    assert shown == (
        "warning: launcher_record/a/checkpoints: a save that was killed has left writing_2 (1.2 MB); --resume deletes it, "
        "and so may you\n"
    )


def test_a_directory_without_runs_is_named(cli: Cli):
    shown = cli("runs", "nowhere")
    assert (shown.code, shown.out, shown.err) == (0, "", "no runs in nowhere\n")


def test_the_help_has_examples(cli: Cli):
    assert "\n    astuner runs" in cli("runs", "--help").out.partition("Examples:")[2]


def test_planned_steps_of_an_older_run_are_those_of_its_configuration(write_run, cli: Cli):
    run = write_run("a", rows=[row(1, 0.1)], settings={"trainer_common": {"total_training_steps": 7}})
    facts = json.loads((run / "run.json").read_text())
    assert "total_training_steps" not in facts
    (found,) = json.loads(cli("runs", "--json").out)["runs"]
    assert (found["steps"], found["planned_steps"]) == (1, 7)


def test_planned_steps_are_those_of_the_last_start(write_run, cli: Cli):
    run = write_run("a", rows=[row(1, 0.1)])
    (run / "run.json").write_text(json.dumps({"backbone": "local", "total_training_steps": 9}))
    (run / "config.yaml").write_text("{")
    document = json.loads(cli("runs", "--json").out)
    assert (document["runs"][0]["planned_steps"], document["problems"]) == (9, [])


@pytest.mark.parametrize(
    "put", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "directory", "device"]
)
@pytest.mark.parametrize("name", ["run.json", "state.json", "config.yaml", "metrics.jsonl", "episodes/train.jsonl"])
def test_the_others_are_listed_whatever_is_in_place_of_a_file(write_run, cli: Cli, put: Callable[[Path], Any], name: str):
    run = write_run("mine", rows=[row(1, 0.1)])
    write_run("other", rows=[row(1, 0.1)])
    (run / name).unlink(missing_ok=True)
    (run / name).parent.mkdir(exist_ok=True)
    put(run / name)
    shown = cli("runs")
    assert [line.split()[0] for line in shown.out.splitlines()[1:]][-1] == "other"
    assert shown.code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_a_run_of_somebody_else_is_named(write_run, tmp_path: Path):
    write_run("mine", rows=[row(1, 0.1)])
    write_run("elsewhere/../../others/a", rows=[row(1, 0.1)])
    for path in (tmp_path, *tmp_path.parents):
        if path != Path("/"):
            path.chmod(path.stat().st_mode | 0o111)
    program = """
import os
import astuner_tools.runs
# Another user may not be able to import.
astuner_tools.runs.runs.main(["others"], standalone_mode=False)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
astuner_tools.runs.runs.main(["launcher_record"], standalone_mode=False)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, text=True, capture_output=True, check=True)
    assert "launcher_record/mine: cannot be read by this user" in done.stderr
    assert "no runs" not in done.stderr
