"""Whole runs: learning, the modes one after the other, stages, an explorer that is ahead."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from stat import S_IMODE
from typing import Any

import coupled_loss
import pytest
from listeners import find_reachable
from quickstart_project import START_S
from recorded_tokens import check_recorded_tokens

from astuner.runs.store.episode_store import read_episodes
from astuner.shared.processes.process_environment import export_variables
from astuner.shared.services.ray import ray
from astuner.shared.services.running import ServiceHost, run_services
from astuner_algorithms.streams import RejectionSampling
from astuner_devkit.run_infos import run_info
from astuner_trinity.process_environment import look_at_machine

from .conftest import succeeded


def test_the_quickstart_learns_its_task_on_this_machine_alone(project: Any) -> None:
    listeners = project.finish(project.begin("run", "--conf", "tune.yaml", "--backbone", "trinity"))
    assert any("VLLM" in what for what in listeners.values())
    assert find_reachable(listeners) == {}
    # One line for each of a million calls is too many.
    assert "HTTP/1.1" not in (project.run / "logs" / "trinity.log").read_text(encoding="utf-8", errors="replace")
    before, after = project.validations
    assert before <= 0.3
    assert after >= 0.7
    rows = project.metrics
    assert [row["step"] for row in rows] == list(range(1, 41))
    # Synchronous: what is trained was sampled by the weights that it moves.
    assert all(row["staleness/max"] == 0 for row in rows)
    # So each ratio to the sampler is 1, to within what float32 rounds; the one that the loss divides by is exactly so.
    assert all(row["ratio/off_one_max"] == 0 for row in rows)
    assert all(row["mismatch/abs_max"] < 1e-3 for row in rows)
    assert all(abs(row["mismatch/mean"]) <= 1e-6 for row in rows)
    check_recorded_tokens(project.run, rows)
    # Linear episodes: the turns of each are one row.
    assert all(row["signal/rows"] == row["signal/episodes"] == 64 and row["signal/branches"] == 0 for row in rows)
    assert any(row["signal/calls"] > row["signal/episodes"] for row in rows)
    # A key may stand in them.
    assert [S_IMODE((project.run / name).stat().st_mode) for name in ("trinity.yaml", "logs/trinity.log")] == [0o600, 0o600]


@pytest.mark.slow
def test_what_an_explorer_plays_is_trained_later_and_its_checkpoints_are_measured(project: Any) -> None:
    buffer = f"sqlite:///{project.home / 'rows.db'}"
    stored = f"buffer: {{trainer_input: {{experience_buffer: {{storage_type: sql, path: '{buffer}', max_read_timeout: 30}}}}}}"
    project.native(f"{{mode: explore, {stored}}}")
    succeeded(project.train(steps=2, experiment_name="explored"))
    explored = project.home / "launcher_record" / "explored"
    rows = [json.loads(line) for line in (explored / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2]
    assert all(row["signal/episodes"] == 12 for row in rows)
    with sqlite3.connect(project.home / "rows.db") as database:
        (table,) = [name for (name,) in database.execute("select name from sqlite_master where name like '%blob'")]
        assert database.execute(f"select count(*) from {table}").fetchone()[0] == sum(row["signal/samples"] for row in rows)

    project.native(f"{{mode: train, {stored}}}")
    succeeded(project.train(steps=2, trainer_common__save_freq=1))
    trained = project.rows
    assert [row["step"] for row in trained] == [1, 2]
    # One optimizer step each; episodes are not counted where none were played.
    assert all("grad/norm" in row for row in trained)
    assert all("signal/episodes" not in row for row in trained)
    # The second step was sampled by the first weights.
    assert [row["staleness/max"] for row in trained] == [0, 1]
    assert trained[0]["ratio/off_one_max"] <= 1e-6 < trained[1]["ratio/off_one_max"]

    succeeded(project.cli("eval", "--conf", "tune.yaml", "--backbone", "trinity", "--set", "trinity.mode=bench", timeout=START_S))
    measured = project.run.with_name("calculator.eval") / "metrics.jsonl"
    assert [json.loads(line)["step"] for line in measured.read_text().splitlines()] == [0, 1, 2]


def test_stages_follow_each_other_from_one_yaml(project: Any) -> None:
    """A warm start on written answers, then imitation of the best, beside a loss of a file, then a measurement of the result."""
    tasks = [json.loads(line) for line in (project.home / "tasks" / "train.jsonl").read_text().splitlines()]
    written = [
        {"messages": [{"role": "user", "content": task["main_query"]}, {"role": "assistant", "content": str(task["answer"])}]}
        for task in tasks
    ]
    (project.home / "written").mkdir()
    (project.home / "written" / "train.jsonl").write_text("\n".join(map(json.dumps, written)))
    buffer = "{name: written, storage_type: file, path: written, format: {prompt_type: messages, messages_key: messages}}"
    sft = (
        f"{{stage_name: sft, mode: train, algorithm: {{algorithm_type: sft}}, buffer: {{train_batch_size: 8, total_steps: 2, "
        f"trainer_input: {{experience_buffer: {buffer}}}}}}}"
    )
    project.native(f"{{stages: [{sft}, {{stage_name: grpo, mode: both}}, {{stage_name: bench, mode: bench}}]}}")
    shutil.copy(coupled_loss.__file__, project.home)
    loss = {"policy_loss": "./coupled_loss.py:Confident", "rollout_rs": "seq_max_k2", "entropy_ctrl__coeff": 0.01}
    signal = {"adv_estimator": "rejection_sampling", "rejection_sampling__least_reward": -1.0}
    succeeded(project.train(steps=2, **{f"trainer_common__algorithm__{key}": value for key, value in (loss | signal).items()}))
    rows = project.rows
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 4]
    # Engine and trainer agree, so nothing is rejected.
    assert all(row["correction/rejected_mean"] == 0 for row in rows[2:4] if row["tokens/trained"])
    # The mean of -log π of what is imitated, and nothing of the policy gradient.
    assert all(row["loss/likelihood"] > 0 and row["loss/policy"] == 0 and row["grad/norm"] > 0 for row in rows[2:4])
    assert "trinity/actor/sft_loss" in rows[0] or any("sft" in name for name in rows[0])
    assert all(row["signal/episodes"] == 12 for row in rows[2:4])
    assert "val/reward/mean" in rows[4]
    assert (project.run / "checkpoints" / "step_4" / "model.safetensors").is_file()
    # Trinity's own loss leaves no values of single tokens.
    check_recorded_tokens(project.run, rows, RejectionSampling(RejectionSampling.Options(least_reward=-1.0)))
    assert {episode.step for episode in read_episodes(project.run / "episodes", "train")} == {3, 4}
    assert {episode.step for episode in read_episodes(project.run / "episodes", "validation")} == {4}
    # With the weights of the step before: counted within the stage, they would lag by its first step.
    assert all(row["staleness/max"] == 0 for row in rows[2:4])


FAILING = '''
from agent import CalculatorAgent


class Failing(CalculatorAgent):
    """Breaks off in the first episode of each group."""

    async def execute(self, workflow_task, tuner):
        output = await super().execute(workflow_task, tuner)
        if workflow_task.repeat == 0:
            raise RuntimeError("broke off")
        return output
'''


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "pipeline"),
    [
        ("algorithm_type: grpo", ""),
        # Leaves every row out: no reward spreads that far.
        ("algorithm_type: grpo, advantage_fn_args: {std_threshold: 9.0}", ""),
        ("algorithm_type: rloo", "data_processor: {experience_pipeline: {operators: [{name: reward_std_filter}]}}"),
    ],
)
def test_an_algorithm_of_trinitys_own_trains_step_by_step_though_rows_are_missing(
    project: Any, algorithm: str, pipeline: str
) -> None:
    """Two workers, so that 9 rows are padded; the rows of the next step may not fill the place of those that are missing."""
    (project.home / "failing.py").write_text(FAILING)
    project.native(f"{{algorithm: {{{algorithm}}}, {pipeline}}}")
    settings = {"rollout__user_workflow": "./failing.py:Failing", "rollout__max_retries": 0}
    succeeded(project.train(steps=3, trainer_common__n_gpus_per_node=3, **settings))
    rows = project.metrics
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert [row["signal/episodes_rewarded"] for row in rows] == [9, 9, 9]
    assert [row["staleness/max"] for row in rows] == [0, 0, 0]
    assert all("trinity/actor/pg_loss" in row for row in rows)


@pytest.mark.slow
def test_an_explorer_that_does_not_wait_is_seen_in_the_metrics(project: Any) -> None:
    project.native("{synchronizer: {sync_style: fully_async}}")
    succeeded(project.train(steps=5, trainer_common__val_before_train="true"))
    rows = project.metrics
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5]
    assert max(row["staleness/max"] for row in rows) >= 1
    lagging = [row for row in rows if row["staleness/max"] >= 1]
    assert all(row["ratio/off_one_max"] > 0 for row in lagging if row["tokens/trained"])
    assert [row["step"] for row in project.rows if "val/reward/mean" in row] == [0, 5]


@pytest.mark.slow
def test_the_configuration_in_the_run_directory_runs_by_itself(project: Any) -> None:
    """`trinity run --config` on it, with a cluster that is there, and nothing of ours around it."""
    succeeded(project.train(steps=1))
    for path in (project.run / "trinity" / "quickstart").glob("*"):
        shutil.rmtree(path)
    _, variables = look_at_machine()
    place = ServiceHost(directory=project.home, say=print, warn=print, stopped=lambda: False)
    with (
        export_variables({**variables, "ASTUNER_STATE_DIR": str(project.state)}),
        run_services({"ray": ray(run_info(project.home))}, place),
    ):
        command = [Path(sys.executable).with_name("trinity"), "run", "--config", project.run / "trinity.yaml"]
        ended = subprocess.run(
            command, cwd=project.home, env=os.environ, capture_output=True, text=True, timeout=START_S, check=False
        )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert (project.run / "trinity" / "quickstart" / "calculator" / "latest_checkpointed_iteration.txt").read_text() == "1"


@pytest.mark.slow
def test_greedy_validation_is_the_same_as_with_local(project: Any) -> None:
    """The same weights give the same greedy answers, whichever backbone plays them."""
    found = []
    for backbone in ("local", "trinity"):
        succeeded(project.cli("eval", "--conf", "tune.yaml", "--backbone", backbone, timeout=START_S))
        measured = project.run.with_name("calculator.eval") / "metrics.jsonl"
        found.append([json.loads(line)["val/reward/mean"] for line in measured.read_text().splitlines()])
    assert found[0] == found[1]
