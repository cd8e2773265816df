"""Weights on their way: adapters alone, and nothing a second time."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(find_spec("verl") is None, reason="verl is not installed")

RANK = 4


def tiny_model() -> Any:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    settings = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 50}
    return Qwen2ForCausalLM(Qwen2Config(**settings, num_attention_heads=4, num_key_value_heads=2)).eval()


def adapted() -> Any:
    """Return a model with adapters that change its answers."""
    import torch
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(tiny_model(), LoraConfig(r=RANK, lora_alpha=8, target_modules="all-linear"))
    for name, value in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value, std=0.1)
    return model.eval()


def test_a_served_model_with_the_adapter_answers_as_the_merged_one() -> None:
    import torch
    from peft.utils.save_and_load import get_peft_model_state_dict

    from astuner_verl.transformers_rollout.weights import ServedWeights

    trained, served, ids = adapted(), ServedWeights(tiny_model()), torch.arange(1, 20)[None]
    tensors = list(get_peft_model_state_dict(trained).items())
    settings = trained.peft_config["default"].to_dict()
    # In parts, and twice, as after two steps.
    for _ in range(2):
        served.load(dict(tensors[:3]), settings)
        served.load(dict(tensors[3:]), settings)
        served.finish()
    with torch.no_grad():
        found = served.model(ids).logits.log_softmax(-1)
        expected = trained.merge_and_unload()(ids).logits.log_softmax(-1)
        base = tiny_model()(ids).logits.log_softmax(-1)
    assert float((found - expected).abs().max()) < 1e-4
    assert float((found - base).abs().max()) > 1e-2


def test_weights_that_are_missing_or_unknown_are_named() -> None:
    import torch

    from astuner_verl.transformers_rollout.weights import ServedWeights

    served = ServedWeights(tiny_model())
    with pytest.raises(RuntimeError, match="the model does not have: nonsense"):
        served.load({"nonsense": torch.zeros(1)}, None)
    with pytest.raises(RuntimeError, match=r"did not come: .*lm_head.weight"):
        served.finish()


class Remote:
    """An actor's handle that notes what is called."""

    def __init__(self, calls: list[Any]) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *args, **kwargs: self._calls.append((name, *args, kwargs)))


class Manager:
    """verl's manager of engines that notes what is called."""

    def __init__(self, calls: list[Any]) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self._calls.append(name)


@pytest.mark.parametrize(
    ("engine", "parts", "expected"),
    [
        (
            "vllm",
            1,
            [
                ("collective_rpc", "sleep", {"kwargs": {"level": 1}}),
                "saved",
                ("collective_rpc", "wake_up", {"kwargs": {}}),
                ("clear_kv_cache", {}),
            ],
        ),
        ("vllm", 2, ["sleep_replicas", "saved", "update_weights"]),
        ("sglang", 1, ["release_kv_cache_replicas", "saved", "resume_kv_cache_replicas"]),
    ],
)
def test_engines_keep_their_weights_while_a_checkpoint_is_written(
    engine: str, parts: int, expected: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray
    from omegaconf import OmegaConf

    from astuner.runs.training import LossOptions
    from astuner_verl.host import Host
    from astuner_verl.packed_loss import PackedLoss
    from astuner_verl.trainer import SteppedTrainer

    calls: list[Any] = []
    monkeypatch.setattr(ray, "get", lambda found: found)
    trainer: Any = object.__new__(SteppedTrainer)
    rollout = {"name": engine, "free_cache_engine": True, "data_parallel_size": parts}
    trainer.config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}})
    trainer.checkpoint_manager = Manager(calls)
    trainer.llm_server_manager = SimpleNamespace(get_replicas=lambda: [SimpleNamespace(servers=[Remote(calls)])])
    trainer.actor_rollout_wg = SimpleNamespace(
        save_checkpoint=lambda *_: calls.append("saved"), save_adapter=lambda *_: None, take_sent_bytes=lambda: [7]
    )
    trainer.ref_in_actor = True
    host = Host({}, PackedLoss.of(LossOptions()))
    host._trainer = trainer
    assert host.serve(3)[1] == 7
    calls.clear()
    host.save(str(tmp_path), "base")
    assert calls == expected
