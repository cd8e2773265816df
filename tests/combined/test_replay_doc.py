"""The commands of docs/judges.md that score a finished run again work as they are shown, on a run of the quickstart's project."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from harness import REPOSITORY, Cli
from runs_on_disk import record, weights_digest

from astuner.runs.inspection.run import Run
from astuner.settings.config.trees import merge
from astuner_devkit.scripted_api import scripted_api

PAGE = (REPOSITORY / "docs" / "judges.md").read_text(encoding="utf-8").split("## Another judge on a finished run")[1]
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [shlex.split(line)[1:] for block in BLOCKS for line in block.splitlines()]
EXAMPLE = re.findall(r"^```python\n(.*?)^```$", (REPOSITORY / "docs" / "judges.md").read_text(encoding="utf-8"), re.M | re.S)[0]
"""The file `exact.py` of the page."""

TUNE = {
    "experiment_name": "my-experiment",
    "data": {"train_batch_size": 2},
    "rollout": {"num_repeat": 2},
    "trainer_common": {
        "total_training_steps": 21,
        "save_freq": 20,
        "val_before_train": False,
        "optim": {"lr_scheduler_type": "constant"},
    },
}
STRICTER = """
def judge(workflow_task, workflow_output):
    return float(workflow_task.repeat)
"""


@pytest.fixture(scope="module")
def home(quickstart: Path, separate_cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a run `my-experiment` of 21 steps and a checkpoint of step 20, and the files that the page names."""
    home = tmp_path_factory.mktemp("scored") / "project"
    shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("model", "launcher_record"))
    (home / "model").symlink_to(quickstart / "model")
    tune = merge(yaml.safe_load((home / "tune.yaml").read_text()), {"astuner": TUNE})
    judge = {"astuner": {"task_judge": {"judge_protocol": "./stricter.py:judge"}}}
    (home / "tune.yaml").write_text(yaml.safe_dump(tune))
    (home / "stricter.yaml").write_text(yaml.safe_dump(merge(tune, judge)))
    (home / "stricter.py").write_text(STRICTER)
    (home / "exact.py").write_text(EXAMPLE)
    finished = separate_cli("run", "--conf", "tune.yaml", cwd=home)
    assert finished.returncode == 0, finished.stderr
    return home


def test_the_page_shows_each_way_once():
    assert [(command[0], "--judge" in command, "--step" in command, "--train-from" in command) for command in COMMANDS] == [
        ("replay", False, False, False),
        ("replay", True, False, False),
        ("replay", False, True, False),
        ("replay", False, False, True),
    ]


@pytest.mark.parametrize("command", COMMANDS[:2], ids=["another YAML", "another judge"])
def test_every_stored_episode_is_scored_again(command: list[str], home: Path, cli: Cli):
    ran = cli(*command, cwd=home)
    assert ran.returncode == 0, ran.stderr
    assert "train: 84 episodes in 42 groups in 21 steps" in ran.stdout
    assert "what is trained" in ran.stdout
    assert Run(record(home, "my-experiment") / "replays" / "my-experiment").state.status == "finished"


def test_the_judge_of_the_page_is_the_one_that_scores(home: Path, cli: Cli):
    assert cli(*COMMANDS[1], cwd=home).returncode == 0
    scored = Run(record(home, "my-experiment") / "replays" / "my-experiment")
    # It compares whole answers, so a boxed number is wrong.
    assert {episode.reward for episode in scored.episodes(split="train")} == {0.0}


def test_a_step_is_scored_by_an_llm(home: Path, cli: Cli):
    with scripted_api('{"rationale": "It is right.", "score": 10}') as api:
        more = ("--set=task_judge.alien_llm_model=scripted",)
        ran = cli(*COMMANDS[2], *more, cwd=home, env=api.environ)
    assert ran.returncode == 0, ran.stderr
    assert "train: 4 episodes in 2 groups in 1 step" in ran.stdout
    assert len(api.bodies) >= 1
    scored = [*Run(home / "replays" / "llm").episodes(split="train")]
    assert {(episode.step, episode.reward) for episode in scored} == {(20, 1.0)}


def test_training_goes_on_from_the_step_of_the_page(home: Path, cli: Cli):
    ran = cli(*COMMANDS[3], cwd=home)
    assert ran.returncode == 0, ran.stderr
    trained, there = record(home, "my-experiment"), record(home, "stricter")
    assert weights_digest(there, 20) == weights_digest(trained, 20)
    assert weights_digest(there, 21) != weights_digest(trained, 21)
