"""Several models in one run: adapters for each target on one base, and earlier weights as opponents."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from harness import SMALL, Cli, environment
from peft import PeftModel
from python_server import PythonServer
from runs_on_disk import metric_rows, record, recorded_tokens, times_generated, weights_digest
from safetensors.torch import load_file
from test_resume import wait_for_episodes
from transformers import AutoModelForCausalLM

import astuner
from astuner.contract.schema import Call

AGENT = '''
from astuner import Workflow, WorkflowOutput

class Talk(Workflow):
    """Each speaker says a word to the question; long talks are rewarded, whatever is said."""

    async def execute(self, workflow_task, tuner):
        said = ""
        for name in ("left", "right", "rival"):
            model = tuner.as_raw_openai_sdk_client(name)
            messages = [{"role": "user", "content": workflow_task.task.main_query}]
            answer = await model.chat.completions.create(model="any", messages=messages, max_tokens=12)
            said += answer.choices[0].message.content or ""
        return WorkflowOutput(reward=len(said) % 7 / 7)
'''
TALK = (*SMALL, "--set=rollout.user_workflow=./talk.py:Talk", "--set=trainer_common.optim.lr=0.01")
ADAPTERS = (*TALK, "--set=model.adapters={left: {lora_rank: 4}, right: {lora_rank: 2, lora_alpha: 8}}")
OPPONENT = "--set=model.opponents={{rival: {{{}}}}}"


@pytest.fixture
def talk(project: Path) -> Path:
    (project / "talk.py").write_text(AGENT)
    return project


def run(cli: Cli, home: Path, *given: str) -> Path:
    finished = cli("run", "--conf", "tune.yaml", *given, cwd=home)
    assert finished.returncode == 0, finished.stderr
    return record(home)


def test_each_target_is_sampled_by_its_own_adapter_and_trains_it(cli: Cli, talk: Path):
    made = run(cli, talk, *ADAPTERS)
    base = talk / "model"
    checkpoints = [made / "checkpoints" / f"step_{step}" for step in (2, 4)]
    assert sorted(path.name for path in checkpoints[0].iterdir() if path.is_dir()) == ["left", "right"]
    weights = {(step, tag): read_adapter(checkpoints[step] / tag) for step in (0, 1) for tag in ("left", "right")}
    for tag in ("left", "right"):
        assert any(not torch.equal(weights[0, tag][name], value) for name, value in weights[1, tag].items())
    # Step 3 is sampled by the weights of the checkpoint of step 2, each by its own and the third by the base.
    episodes = list(astuner.Run(made).episodes(step=3))
    check_sampled_by(open_model(base, checkpoints[0] / "left"), calls_of(episodes, "left"))
    check_sampled_by(open_model(base, checkpoints[0] / "right"), calls_of(episodes, "right"))
    check_sampled_by(open_model(base), calls_of(episodes, "rival"))
    assert {one.target_tag for episode in episodes for one in episode.samples} == {"left", "right"}
    assert {call.untrained for call in calls_of(episodes, "rival")} == {"frozen_agent"}
    for row in metric_rows(made):
        assert row["mismatch/abs_max"] < 1e-4
        assert row["signal/tokens"] == row["adapter/left/signal/tokens"] + row["adapter/right/signal/tokens"]
        assert row["adapter/left/signal/updates"] == 1
    assert len(recorded_tokens(made)) == 4


def test_killed_it_goes_on_to_the_same_weights(cli: Cli, python_server: PythonServer, talk: Path, tmp_path: Path):
    given = (*ADAPTERS, OPPONENT.format("adapter: left, checkpoint: latest"))
    whole = tmp_path / "whole"
    shutil.copytree(talk, whole, symlinks=True)
    run(cli, whole, *given)
    with (talk / "log.txt").open("ab") as log:
        process = python_server.start(
            ["-m", "astuner", "run", "--conf", "tune.yaml", *given],
            cwd=talk,
            env=environment(),
            output=(log, log),
            start_new_session=True,
        )
        wait_for_episodes(record(talk), process, 12 * 2 + 3)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finished = cli("run", "--conf", "tune.yaml", *given, "--resume", cwd=talk)
    assert finished.returncode == 0 or "is finished" in finished.stderr, finished.stderr
    assert weights_digest(record(talk), 4) == weights_digest(record(whole), 4)
    assert metric_rows(record(talk)) == metric_rows(record(whole))
    assert recorded_tokens(record(talk)) == recorded_tokens(record(whole))
    assert set(times_generated(record(talk)).values()) == {1}


@pytest.mark.parametrize(
    ("settings", "opponent", "expected"),
    [
        # The checkpoint of a step answers from the step after the next one on: one that the run has just written does not.
        ((), "checkpoint: 2", [None, None, None, "step_2"]),
        (("--set=model.lora_rank=2", "--set=trainer_common.save_freq=1"), "", [None, None, "step_1", "step_2"]),
    ],
)
def test_an_opponent_answers_with_earlier_weights(
    cli: Cli, talk: Path, settings: tuple[str, ...], opponent: str, expected: list[str | None]
):
    made = run(cli, talk, *TALK, *settings, OPPONENT.format(opponent))
    for step, name in enumerate(expected, 1):
        calls = calls_of(astuner.Run(made).episodes(step=step), "rival")
        assert {call.untrained for call in calls} == {"frozen_agent"}
        where = talk / "model" if name is None else made / "checkpoints" / name
        adapter = where if (where / "adapter_config.json").is_file() else None
        check_sampled_by(open_model(talk / "model" if adapter else where, adapter), calls)


def test_an_engine_that_serves_one_model_is_refused(cli: Cli, talk: Path):
    (talk / "engine.py").write_text(
        "from astuner_local.engine.plugin import LocalEngine\n\nclass Plain(LocalEngine):\n    pass\n"
    )
    refused = cli("run", "--conf", "tune.yaml", *ADAPTERS, "--set=rollout.name=./engine.py:Plain", cwd=talk)
    assert refused.returncode == 2, refused.stderr
    assert "astuner.rollout.name" in refused.stderr
    assert "serves one model; model.adapters and model.opponents need several" in refused.stderr


def test_a_model_of_several_is_exported_and_evaluated_by_name(cli: Cli, talk: Path, tmp_path: Path):
    made = run(cli, talk, *ADAPTERS)
    refused = cli("export", "calculator", "--out", str(tmp_path / "any"), cwd=talk)
    assert refused.returncode == 2
    assert "has several models; give --adapter one of left, right" in refused.stderr
    wrong = cli("export", "calculator", "--adapter", "rival", "--out", str(tmp_path / "any"), cwd=talk)
    assert "has no model 'rival'" in wrong.stderr
    for name, more in (("adapter", ()), ("whole", ("--merge-lora",))):
        done = cli("export", "calculator", "--adapter", "right", *more, "--out", str(tmp_path / name), cwd=talk)
        assert done.returncode == 0, done.stderr
    saved = made / "checkpoints" / "step_4" / "right"
    assert read_adapter(tmp_path / "adapter").keys() == read_adapter(saved).keys()
    ids = torch.arange(1, 20)[None]
    logits = [model(input_ids=ids).logits for model in (open_model(talk / "model", saved), open_model(tmp_path / "whole"))]
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-4, atol=1e-4)
    evaluated = cli("eval", "--conf", "tune.yaml", *ADAPTERS, "--checkpoint", str(saved.parent), cwd=talk)
    assert evaluated.returncode == 0, evaluated.stderr


def read_adapter(directory: Path) -> dict[str, torch.Tensor]:
    return load_file(directory / "adapter_model.safetensors")


def open_model(path: Path, adapter: Path | None = None) -> Any:
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return (model if adapter is None else PeftModel.from_pretrained(model, str(adapter))).eval()


def calls_of(episodes: Iterable[astuner.Episode], agent: str) -> list[Call]:
    return [call for episode in episodes for call in episode.calls if call.agent == agent]


@torch.no_grad()
def check_sampled_by(model: Any, calls: list[Call]) -> None:
    """Compare what the engine recorded with what transformers computes: each agent's prompt is the first of its conversation."""
    assert calls
    for call in calls:
        ids = torch.from_numpy(np.concatenate([call.prompt_ids, call.output_ids]).astype(np.int64))[None]
        logprobs = model(input_ids=ids).logits[0].log_softmax(-1)[len(call.prompt_ids) - 1 : -1]
        found = logprobs.gather(1, ids[0, len(call.prompt_ids) :, None])[:, 0]
        np.testing.assert_allclose(call.logprobs, found.numpy(), atol=2e-4)
