"""The plan of memory of a run: gathered per GPU, shown, and held against the machine before anything is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astuner.cli import exit_code_of
from astuner.contract.errors import ConfigError
from astuner.settings.planning.memory_plan import look_at_hardware
from astuner.settings.planning.plan import plan_run

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
  rollout: {user_workflow: "./agent.py:Agent", name: scripted}
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


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "acme.py").write_text(BACKBONE)
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "tasks.jsonl").write_text('{"main_query": "?"}\n')
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text(json.dumps(SHAPE))
    (tmp_path / "run.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run.yaml"


def give_gpus(monkeypatch: pytest.MonkeyPatch, number: int, mib: int) -> None:
    monkeypatch.setattr("astuner.settings.planning.memory_plan.gpu_count", lambda: number)
    monkeypatch.setattr("astuner.settings.planning.memory_plan.smallest_gpu_bytes", lambda: mib * MIB)


def explain(conf: Path, *more: str) -> int:
    return exit_code_of(["config", "explain", "--conf", str(conf), "--memory", *more])


def test_gpus_with_the_same_parts_are_one_table(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(conf, "--gpus", "4x1") == 0
    out = capsys.readouterr().out
    assert [line.split("  ")[0] for line in out.splitlines() if line.isupper() or "HOW" in line] == [
        "GPUS 0-2",
        "GPU 3",
        "MAIN MEMORY",
    ]
    assert "1.1 million parameters" in out


def test_each_phase_has_its_sum(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(conf, "--gpus", "2x1", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    weights = 4 * document["parameters"]
    trainer, engine, main = document["devices"]
    assert trainer["totals"] == {"playing": weights, "sending": weights, "training": 2 * weights}
    assert engine["totals"] == {"playing": weights // 2, "sending": 0, "training": 0}
    assert (main["name"], main["totals"]["sending"]) == ("main memory", weights)


def test_what_does_not_fit_names_the_keys_that_mend_it(
    conf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give_gpus(monkeypatch, 2, 6)
    assert explain(conf) == 2
    err = capsys.readouterr().err
    assert "while training, GPU 0 would hold" in err
    assert "model.path smaller; model.lora_rank up" in err


def test_a_plan_that_does_not_fit_is_refused_unless_the_user_insists(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_gpus(monkeypatch, 2, 6)
    with pytest.raises(ConfigError, match="while training, GPU 0 would hold"):
        plan_run(conf).check_memory()
    (warning,) = plan_run(conf, ["trainer_common.memory_check=warn"]).check_memory()
    assert "GPU 0" in warning


def test_a_run_that_does_not_fit_ends_before_its_directory_exists(
    conf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give_gpus(monkeypatch, 2, 6)
    assert exit_code_of(["run", "--conf", str(conf)]) == 2
    assert "memory_check" in capsys.readouterr().err
    assert not (conf.parent / "launcher_record").exists()


def test_what_fits_is_not_refused(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_gpus(monkeypatch, 2, 100)
    assert plan_run(conf).check_memory() == []


def test_the_estimate_of_a_run_shows_its_memory(
    conf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give_gpus(monkeypatch, 2, 6)
    assert exit_code_of(["run", "--conf", str(conf), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "does not fit" in out
    assert "model.lora_rank up" in out


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (None, "neither on this disk nor in the cache"),
        ({"model_type": "mixed", "num_experts": 8}, "not a dense decoder"),
        (SHAPE, "acme computes on GPUs"),
    ],
)
def test_without_a_plan_there_is_a_reason_and_no_refusal(
    conf: Path, config: dict[str, object] | None, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("astuner.settings.planning.memory_plan.gpu_count", lambda: 0)
    file = conf.parent / "model/config.json"
    file.unlink() if config is None else file.write_text(json.dumps(config))
    assert explain(conf) == 0
    assert why in capsys.readouterr().out
    assert plan_run(conf).check_memory() == []


def test_adapters_are_planned_with_the_shape_of_their_base(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapters = conf.parent / "adapters"
    adapters.mkdir()
    (adapters / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(conf.parent / "model"), "r": 4}))
    assert explain(conf, "--gpus", "2x1", "--set", "model.path=adapters", "--json") == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == 1_130_816


@pytest.mark.parametrize("given", ["8", "8x", "x80", "0x80", "8x80GB"])
def test_gpus_are_written_as_a_number_and_a_size(conf: Path, given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(conf, "--gpus", given) == 2
    assert "8x80" in capsys.readouterr().err


def test_gpus_belong_to_memory(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["config", "explain", "--conf", str(conf), "--gpus", "8x80"]) == 2
    assert "--memory" in capsys.readouterr().err


def test_this_machine_has_memory() -> None:
    main = look_at_hardware().main_bytes
    assert main is not None
    assert main > 0
