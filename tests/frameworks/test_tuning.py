"""A tiny model is tuned through each framework: what is trained is what was sampled, and every turn continues the last."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from runs_on_disk import metric_rows, record
from tutorials import AGENTS, FRAMEWORKS

from astuner.runs.store.store_lines import read_records
from astuner.shared.processes.ports import free_port
from astuner_devkit.command_line import run_command

STEPS = 3
OVER_HTTP = {"mcp": ("http.yaml", "--with=calculator", "--set=experiment_name=mcp")}
"""Over stdio each episode starts a server, which takes seconds for a test; test_mcp.py plays two of them."""
SETTINGS = (
    "--backbone=local",
    "--set=data.train_batch_size=4",
    "--set=rollout.num_repeat=6",
    f"--set=trainer_common.total_training_steps={STEPS}",
    "--set=trainer_common.val_before_train=false",
)


@frozen
class Tuned:
    rows: list[dict[str, float]]
    episodes: list[dict[str, Any]]


@pytest.fixture(scope="module")
def tune(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tuned]:
    """Tune the model through a framework; once, however often it is asked for."""

    @cache
    def run(name: str) -> Tuned:
        home = tmp_path_factory.mktemp("agents") / "agents"
        shutil.copytree(AGENTS, home)
        conf, *more = OVER_HTTP.get(name, ("tune.yaml",))
        port = str(free_port())
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CALCULATOR_PORT", port)
            patch.setenv("CALCULATOR_URL", f"http://127.0.0.1:{port}/mcp" if more else "")
            arguments = ("run", "--conf", conf, *SETTINGS, *more, f"--set=model.path={tiny_model}")
            finished = run_command(*arguments, cwd=home / name)
        assert finished.code == 0, finished.err
        directory = record(home / name, name)
        entries = read_records(directory / "episodes" / "train.jsonl")
        return Tuned(metric_rows(directory), [entry["episode"] for _, entry in entries if entry["kind"] == "episode"])

    return run


@pytest.fixture(params=FRAMEWORKS)
def tuned(request: pytest.FixtureRequest, tune: Callable[[str], Tuned]) -> Tuned:
    return tune(request.param)


def test_every_step_trains_with_a_finite_loss(tuned: Tuned):
    assert [row["step"] for row in tuned.rows] == list(range(1, STEPS + 1))
    assert all(row["signal/tokens_trainable"] > 0 for row in tuned.rows)
    assert max(row["signal/tokens_nonzero_advantage"] for row in tuned.rows) > 0
    losses = [row["loss/policy"] for row in tuned.rows if not row["signal/nothing_to_train"]]
    assert losses
    assert all(map(math.isfinite, losses))
    assert all(row["signal/updates_not_finite"] == 0 for row in tuned.rows)


def test_no_episode_fails(tuned: Tuned):
    assert [episode["failures"] for episode in tuned.episodes if episode["failures"]] == []


def test_every_sampled_token_is_trained_once_or_counted(tuned: Tuned):
    for episode in tuned.episodes:
        sampled = sum(len(call["output_ids"]) for call in episode["calls"])
        # In the store a mask is the list of the positions that are trained.
        trained = sum(len(set(sample["mask"])) for sample in episode["samples"])
        assert trained + sum(episode["untrained"].values()) == sampled


def test_each_turn_continues_the_whole_stream_of_the_turn_before(tuned: Tuned):
    several = [episode for episode in tuned.episodes if len(episode["calls"]) > 1]
    assert several, "no episode called its tool"
    for episode in several:
        calls = episode["calls"]
        lengths = [call["kept"] + len(call["prompt_ids"]) + len(call["output_ids"]) for call in calls]
        assert [(call["parent"], call["kept"]) for call in calls[1:]] == list(enumerate(lengths[:-1]))
        assert len(episode["samples"]) == 1


def test_training_is_the_same_as_without_any_framework(tuned: Tuned, tune: Callable[[str], Tuned]):
    assert tuned.rows == tune("raw_http").rows
