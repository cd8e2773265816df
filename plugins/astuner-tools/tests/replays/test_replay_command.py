"""`astuner replay` and `astuner.replay`, as a user calls them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import astuner
from astuner.contract.errors import UsageError
from astuner_devkit.command_line import CommandResult
from astuner_devkit.episodes import episode
from astuner_devkit.project import write_project

Cli = Callable[..., CommandResult]
OPPOSITE = "def judge(task, output):\n    print('loud')\n    return float(task.repeat), task.repeat == 1\n"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    (tmp_path / "opposite.py").write_text(OPPOSITE)
    return write_project(tmp_path, "./opposite.py:judge", name="new")


@pytest.fixture
def stored_run(write_run) -> Path:
    return write_run("mine", episodes=[episode(0, 1.0, success=True), episode(1, 0.0, success=False)])


def test_the_report_names_what_changed_and_where_the_verdicts_are(stored_run: Path, conf: Path, cli: Cli):
    shown = cli("replay", "mine", "--conf", conf)
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[:8] == [
        "train: 2 episodes in 1 group in 1 step",
        "  agreement  0.0% of 2 episodes that both judged: 0 equal, 2 not",
        "  mean       0.500 -> 0.500",
        "  success    equal in 0.0%",
        "    success -> failure: 1 (train/1/t/0)",
        "    failure -> success: 1 (train/1/t/1)",
        "  siblings   1 of 1 pairs in the other order, 0 now equal",
        "    best and worst change places: 1 (train/1/t)",
    ]
    assert "tokens with signal   6       6" in shown.out
    assert "loud" not in shown.out
    assert shown.out.splitlines()[-1].endswith("astuner episodes launcher_record/mine/replays/new")


def test_the_replay_is_a_run_for_the_other_commands(stored_run: Path, conf: Path, cli: Cli):
    cli("replay", "mine", "--conf", conf, "--out", "again")
    assert "reward 0, no success" in cli("episodes", "again", "--lowest", 1).out
    compared = json.loads(cli("compare", "mine", "again", "--json").out)
    assert compared["runs"][1]["status"] == "finished"
    assert compared["runs"][1]["first_reward"] == 0.5
    assert "task_judge.judge_protocol" in [one["key"] for one in compared["configuration"]]


def test_the_document_holds_the_whole_report(stored_run: Path, conf: Path, cli: Cli):
    found = json.loads(cli("replay", "mine", "--conf", conf, "--json").out)
    assert found["splits"][0]["agreement"]["to_success"] == ["train/1/t/1"]
    assert found["splits"][0]["training"]["new"]["tokens_with_signal"] == 6
    assert (found["usage"]["requests"], found["notices"], found["problems"]) == (0, [], [])


def test_neither_the_agent_nor_the_model_are_needed(stored_run: Path, conf: Path, tmp_path: Path, cli: Cli):
    conf.write_text("astuner:\n  task_judge: {judge_protocol: ./opposite.py:judge}\n")
    assert cli("replay", "mine", "--conf", conf).code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere", "--conf", "new.yaml"), "nowhere: there is no such run"),
        (("mine", "--conf", "lost.yaml"), "--conf lost.yaml: there is no such file"),
        (("mine", "--conf", "new.yaml", "--judge", "maths"), "--set task_judge.judge_type: astuner.task_judge.judge_type: "),
        (("mine", "--conf", "new.yaml", "--out", "new.yaml"), "is not a directory; choose another one with --out"),
        (("mine", "--conf", "new.yaml", "--split", "validation"), "validation.jsonl: no episodes are stored"),
    ],
)
def test_a_mistake_is_named(stored_run: Path, conf: Path, cli: Cli, arguments: tuple[str, ...], said: str):
    shown = cli("replay", *arguments)
    assert (shown.code, shown.out) == (2, "")
    assert said in shown.err


def test_from_python(stored_run: Path, conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    found = astuner.replay("mine", conf, {"trainer_common.algorithm.norm_adv_by_std_in_grpo": False}, out="again")
    assert found.splits[0].agreement.agreement == 0.0
    assert [one.reward for one in astuner.Run(found.directory).episodes()] == [0.0, 1.0]
    with pytest.raises(UsageError, match="there is no such run"):
        astuner.replay("nowhere", conf)


def test_from_a_notebook(stored_run: Path, conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    async def cell() -> float | None:
        return astuner.replay(astuner.Run("launcher_record/mine"), conf).splits[0].agreement.agreement

    assert asyncio.run(cell()) == 0.0


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"train_from": 0, "judge": "math"}, "--judge: --train-from needs every episode"),
        ({"train_from": 0, "split": "train"}, "leave --split out"),
        ({"train_from": 0, "step": 1}, "leave --step out"),
        ({"train_from": 3}, "--train-from 3: .* has no checkpoint of this step; there is none"),
        ({"train_from": 0}, "--train-from 0: .* does not say what it was made from"),
    ],
)
def test_training_from_python_is_refused_before_a_judge_is_asked(stored_run: Path, conf: Path, choice, said: str):
    with pytest.raises(UsageError, match=said):
        astuner.replay(stored_run, conf, **choice)
    assert not (stored_run / "replays").exists()


RAISES = "def judge(task, output):\n    return float({}['answer']), True\n"
RAISES_ON_WRONG = "def judge(task, output):\n    return (1.0, True) if task.repeat == 0 else int('about four')\n"


def test_a_judge_that_raises_is_shown_with_file_and_line_and_ends_with_1(stored_run: Path, conf: Path, tmp_path: Path, cli: Cli):
    (tmp_path / "opposite.py").write_text(RAISES)
    shown = cli("replay", "mine", "--conf", conf)
    assert shown.code == 1
    assert "  mean       0.500 -> - (of 2 of 2 -> 0 of 2 episodes)" in shown.out
    assert "2 x judge_error, first in train/1/t/0: " in shown.out
    assert "raised KeyError: 'answer' (opposite.py:2 in judge)" in shown.out
    assert "astuner episodes launcher_record/mine/replays/new --failed" in shown.out
    assert "2 of 2 episodes (train) have no reward, more than rollout.failure_budget = 0.5 allows" in shown.err
    document = cli("replay", "mine", "--conf", conf, "--json")
    found = json.loads(document.out)["splits"][0]["agreement"]
    assert document.code == 1
    assert found["judge_failures"] == {"judge_error": 2}
    assert "KeyError" in found["judge_failure_examples"]["judge_error"]


def test_answers_on_which_the_judge_raises_are_no_success_and_get_the_reward_of_the_key(
    stored_run: Path, conf: Path, tmp_path: Path, cli: Cli
):
    (tmp_path / "opposite.py").write_text(RAISES_ON_WRONG)
    shown = cli("replay", "mine", "--conf", conf)
    assert shown.code == 0
    assert "  success    equal in 100.0%" in shown.out
    valued = cli("replay", "mine", "--conf", conf, "--set", "rollout.failure_rewards.judge_error=0", "--json")
    found = json.loads(valued.out)["splits"][0]
    assert (found["agreement"]["agreement"], found["agreement"]["unjudged"]) == (1.0, 0)
    assert found["training"]["new"]["tokens_with_signal"] == 6
