"""The device that a run computes on, as `rollout.local.device` chooses it, with any way of naming the engine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from attrs import evolve

from astuner.contract.errors import ConfigError
from astuner.settings.planning.plan import Plan, plan_run
from astuner_local import backbone
from astuner_local.backbone import LocalBackbone
from astuner_local.device import choose_device, read_device
from astuner_local.engine.serving import load

AGENT = """
from astuner import Workflow, WorkflowOutput


class Agent(Workflow):
    async def execute(self, workflow_task, tuner):
        return WorkflowOutput(reward=1.0)
"""
CONFIG = """\
astuner:
  backbone: local
  model: {path: model}
  task_reader: {type: dataset_file, dataset_file: {training: {file_path: tasks.jsonl}}}
  rollout: {user_workflow: "./agent.py:Agent"}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., Plan]:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "tasks.jsonl").write_text('{"main_query": "?"}\n')
    (tmp_path / "tune.yaml").write_text(CONFIG)
    return lambda *overrides: plan_run(tmp_path / "tune.yaml", overrides)


@pytest.mark.parametrize("name", ["auto", "local"])
def test_options_of_the_own_engine_hold_whether_it_is_named_or_not(plan: Callable[..., Plan], name: str) -> None:
    chosen = plan(f"rollout.name={name}", "rollout.local.device=cpu", "rollout.local.kv_tokens=4096")
    assert chosen.recipe.engine is not None
    assert (chosen.recipe.engine.options.device, chosen.recipe.engine.options.kv_tokens) == ("cpu", 4096)
    assert read_device(chosen.run_info()) == "cpu"


def test_a_wrong_option_is_refused_if_no_engine_is_named(plan: Callable[..., Plan]) -> None:
    with pytest.raises(ConfigError, match=r"rollout\.local\.kv_tokens"):
        plan("rollout.local.kv_tokens=0")


def test_another_engine_leaves_the_device_open(plan: Callable[..., Plan]) -> None:
    assert read_device(plan("rollout.name=scripted", "rollout.local.device=cpu").run_info()) == "auto"


@pytest.mark.parametrize(("device", "deterministic"), [("cpu", True), ("auto", False)])
def test_a_run_on_the_cpu_is_deterministic_next_to_a_gpu(
    plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch, device: str, deterministic: bool
) -> None:
    monkeypatch.setattr(backbone, "gpu_count", lambda: 1)
    settled = {item.key: item.value for item in LocalBackbone.settle_values(plan(f"rollout.local.device={device}").run_info())}
    assert settled["local.trainer.deterministic"] is deterministic


@pytest.mark.parametrize(("layers", "name", "advised"), [(24, "auto", True), (24, "local", False), (6, "auto", False)])
def test_a_model_that_is_not_small_is_told_of_the_engine_for_gpus(
    plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, layers: int, name: str, advised: bool
) -> None:
    # The sizes of Qwen2.5-0.5B.
    sizes = {"hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14, "num_key_value_heads": 2}
    config = {"model_type": "qwen2", "vocab_size": 151936, "num_hidden_layers": layers, "torch_dtype": "bfloat16", **sizes}
    run_info = plan(f"rollout.name={name}").run_info()
    run_info = evolve(run_info, config=evolve(run_info.config, model=evolve(run_info.config.model, path=str(tmp_path / "qwen"))))
    (tmp_path / "qwen").mkdir()
    (tmp_path / "qwen/config.json").write_text(json.dumps(config))
    monkeypatch.setattr(backbone, "gpu_count", lambda: 1)
    costs = [item.cost for item in LocalBackbone.settle_values(run_info) if item.key == "rollout.name" and item.cost]
    assert [re.findall(r"0\.5 billion|set rollout\.name to vllm", cost) for cost in costs] == (
        [["0.5 billion", "set rollout.name to vllm"]] if advised else []
    )
    monkeypatch.setattr(backbone, "gpu_count", lambda: 0)
    assert not [item for item in LocalBackbone.settle_values(run_info) if item.key == "rollout.name"]


@pytest.mark.parametrize(("there", "chosen"), [(True, "cuda"), (False, "cpu")])
def test_auto_takes_a_gpu_that_torch_finds(monkeypatch: pytest.MonkeyPatch, there: bool, chosen: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert choose_device("auto") == chosen
    assert choose_device("cpu") == "cpu"


@pytest.mark.parametrize(("version", "reason"), [(None, "is built without CUDA"), ("13.0", "for CUDA 13.0 finds no GPU")])
def test_a_gpu_that_torch_does_not_find_is_refused_before_a_model_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str | None, reason: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", version)
    with pytest.raises(ConfigError) as caught:
        load(str(tmp_path / "nothing"), "auto", device="cuda")
    (problem,) = caught.value.problems
    assert problem.key == "astuner.rollout.local.device"
    assert reason in problem.message
    assert "Set it to auto or cpu" in problem.message
