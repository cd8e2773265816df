"""`local` trains through vLLM: the server gets each step's weights, and what it samples is what the trainer computes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from listeners import find_reachable
from peft import PeftModel
from transformers import AutoModelForCausalLM

import astuner

EXACT = 1e-3
"""Largest difference between a sampled token's log-probability in the server and in the trainer; in float32 it is about 1e-5."""


def test_a_run_trains_on_what_the_server_samples_with_its_newest_weights(project: Any) -> None:
    # Enough episodes that some are right, and move the weights.
    many = ("--set=data.train_batch_size=8", "--set=rollout.num_repeat=8")
    faster = ("--set=trainer_common.optim.lr=3.0e-3", "--set=trainer_common.optim.lr_warmup_steps=0")
    listeners = project.finish(project.begin("run", "--conf", "tune.yaml", *project.short(3), *faster, *many))
    assert any("astuner_vllm.serve" in what for what in listeners.values())
    assert find_reachable(listeners) == {}
    # vLLM says so at each step of layers that have no weights of their own.
    assert "Failed to load weights" not in (project.run / "logs" / "vllm-0.log").read_text(encoding="utf-8", errors="replace")
    rows = project.metrics
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert all(math.isfinite(row["loss/policy"]) for row in rows)
    # The weights have moved, and the server has moved with them.
    assert rows[-1]["kl/mean"] > EXACT
    assert max(row["mismatch/abs_max"] for row in rows) < EXACT
    assert [pytest.approx(1.0, abs=EXACT)] * 3 == [row["mismatch/ratio_mean"] for row in rows]


@pytest.mark.slow
def test_adapters_are_trained_and_served(project: Any) -> None:
    adapters = ("--set=model.lora_rank=4", "--set=trainer_common.optim.lr=2.0e-2", "--set=trainer_common.optim.lr_warmup_steps=0")
    done = project.train(*adapters)
    assert done.returncode == 0, done.stderr
    rows = project.metrics
    assert rows[-1]["kl/mean"] > EXACT
    assert max(row["mismatch/abs_max"] for row in rows) < EXACT


TALK = """
from astuner import Workflow, WorkflowOutput

class Talk(Workflow):
    async def execute(self, workflow_task, tuner):
        said = ""
        for name in ("left", "right", "rival", "other"):
            model = tuner.as_raw_openai_sdk_client(name)
            messages = [{"role": "user", "content": workflow_task.task.main_query}]
            answer = await model.chat.completions.create(model="any", messages=messages, max_tokens=12)
            said += answer.choices[0].message.content or ""
        return WorkflowOutput(reward=len(said) % 7 / 7)
"""


@pytest.mark.slow
def test_adapters_of_several_targets_and_an_opponent_are_served_side_by_side(project: Any) -> None:
    (project.home / "talk.py").write_text(TALK)
    done = project.train(
        "--set=rollout.user_workflow=./talk.py:Talk",
        "--set=model.adapters={left: {lora_rank: 4}, right: {lora_rank: 2}}",
        "--set=model.opponents={rival: {adapter: left}}",
        "--set=trainer_common.save_freq=1",
        "--set=trainer_common.optim.lr=2.0e-2",
        "--set=trainer_common.optim.lr_warmup_steps=0",
        steps=3,
    )
    assert done.returncode == 0, done.stderr
    rows = project.metrics
    for tag in ("left", "right"):
        assert rows[-1][f"adapter/{tag}/kl/mean"] > EXACT / 10
        assert max(row[f"adapter/{tag}/mismatch/abs_max"] for row in rows) < EXACT
    episodes = list(astuner.Run(project.run).episodes(step=3))
    base = AutoModelForCausalLM.from_pretrained(project.home / "model", dtype=torch.float32).eval()
    check_sampled_by(base, episodes, "other")
    earlier = PeftModel.from_pretrained(base, str(project.run / "checkpoints" / "step_1" / "left")).eval()
    check_sampled_by(earlier, episodes, "rival")


@torch.no_grad()
def check_sampled_by(model: Any, episodes: list[Any], agent: str) -> None:
    calls = [call for episode in episodes for call in episode.calls if call.agent == agent]
    assert calls
    for call in calls:
        ids = torch.tensor([[*call.prompt_ids.tolist(), *call.output_ids.tolist()]])
        fed = len(call.prompt_ids)
        expected = model(input_ids=ids).logits[0].log_softmax(-1)[fed - 1 : -1].gather(1, ids[0, fed:, None])[:, 0]
        assert call.logprobs.tolist() == pytest.approx(expected.tolist(), abs=EXACT)


@pytest.mark.slow
def test_a_resumed_run_serves_the_weights_of_its_checkpoint(project: Any) -> None:
    faster = ("--set=trainer_common.optim.lr=3.0e-3", "--set=trainer_common.optim.lr_warmup_steps=0")
    first = project.train(*faster, "--set=trainer_common.save_freq=2", steps=2)
    assert first.returncode == 0, first.stderr
    second = project.train(*faster, "--resume", steps=3)
    assert second.returncode == 0, second.stderr
    last = project.metrics[-1]
    assert (last["step"], last["mismatch/abs_max"] < EXACT) == (3, True)


@pytest.mark.slow
def test_the_quickstart_learns_with_vllm(project: Any) -> None:
    done = project.cli("run", "--conf", "tune.yaml", "--backbone=local", "--set=rollout.name=vllm", timeout=900)
    assert done.returncode == 0, done.stderr
    assert project.validations[-1] > 0.5 > project.validations[0]
