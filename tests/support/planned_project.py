"""A project whose backbone plans its memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

MIB = 1 << 20
BACKBONE = """
from attrs import evolve

from astuner.episodes.builtin.debug.debug_backbone import DebugBackbone
from astuner.contract.errors import UsageError
from astuner.settings.memory_estimate.parts import MAIN_MEMORY, MemoryPart, MemoryPlan


class Acme(DebugBackbone):
    name = "acme"
    traits = evolve(DebugBackbone.traits, throwaway=False, plans_memory=True)

    @classmethod
    def plan_memory(cls, run_info, question):
        if not question.hardware.gpus:
            raise UsageError("acme computes on GPUs")
        last = question.hardware.gpus - 1
        weights = 4 * question.shape.parameters
        parts = [
            MemoryPart(name="weights", bytes=weights, gpus=range(last), because="float32", keys=("model.path smaller",)),
            MemoryPart(name="gradients", bytes=weights, gpus=range(last), phases=("training",), keys=("model.lora_rank up",)),
            MemoryPart(name="KV cache", bytes=weights // 2, gpus=(last,), phases=("playing",)),
            MemoryPart(name="weights in flight", bytes=weights, gpus=(MAIN_MEMORY,), phases=("sending",)),
        ]
        return MemoryPlan(parts=parts)
"""
AGENT = """
from astuner import Workflow, WorkflowOutput


class Agent(Workflow):
    async def execute(self, workflow_task, tuner):
        return WorkflowOutput(reward=1.0)
"""
CONFIG = """\
astuner:
  backbone: ./acme.py:Acme
  model: {path: model}
  task_reader: {type: dataset_file, dataset_file: {training: {file_path: tasks.jsonl}}}
  rollout: {user_workflow: "./planned_agent.py:Agent", name: scripted}
  data: {train_batch_size: 1}
  trainer_common: {total_training_steps: 3}
"""
SHAPE = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 4096 * 4,
    "tie_word_embeddings": True,
}


def write_planned_project(folder: Path) -> Path:
    """Write it, and return its YAML."""
    (folder / "acme.py").write_text(BACKBONE)
    (folder / "planned_agent.py").write_text(AGENT)
    (folder / "tasks.jsonl").write_text('{"main_query": "?"}\n')
    (folder / "model").mkdir()
    (folder / "model/config.json").write_text(json.dumps(SHAPE))
    (folder / "run.yaml").write_text(CONFIG)
    return folder / "run.yaml"


def give_gpus(monkeypatch: pytest.MonkeyPatch, number: int, mib: int) -> None:
    monkeypatch.setattr("astuner.settings.planning.memory_plan.gpu_count", lambda: number)
    monkeypatch.setattr("astuner.settings.planning.memory_plan.smallest_gpu_bytes", lambda: mib * MIB)
