from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="weights of modules need torch")
pytest.importorskip("transformers", reason="and transformers")

from safetensors.torch import load_file  # noqa: E402
from transformers import Qwen2Config, Qwen2ForCausalLM  # noqa: E402

from astuner_vllm.weights import place_for, remove_leftovers, store_weights  # noqa: E402


def module(*, tied: bool = True, dtype: Any = torch.float32) -> Any:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        tie_word_embeddings=tied,
    )
    return Qwen2ForCausalLM(config).to(dtype)


def store_and_read(ref: Any, place: Path, dtype: str | None = None) -> tuple[bool, dict[str, Any], Any]:
    """Return whether it is an adapter, the tensors, and the adapter's configuration."""

    async def store() -> tuple[bool, dict[str, Any], Any]:
        async with store_weights(ref, place, dtype=dtype) as found:
            tensors = {name: tensor for file in found.directory.glob("*.safetensors") for name, tensor in load_file(file).items()}
            adapter = found.directory / "adapter_config.json"
            return found.adapter, tensors, json.loads(adapter.read_text()) if adapter.exists() else None

    return asyncio.run(store())


@pytest.mark.parametrize("tied", [True, False])
def test_a_module_is_stored_under_the_names_of_its_checkpoint(tmp_path: Path, tied: bool) -> None:
    model = module(tied=tied)
    model.save_pretrained(tmp_path / "checkpoint")
    expected = load_file(tmp_path / "checkpoint" / "model.safetensors")
    adapter, tensors, _ = store_and_read(model, tmp_path / "place")
    assert (False, expected.keys()) == (adapter, tensors.keys())
    assert all(torch.equal(tensors[name], expected[name]) for name in expected)


def test_a_plain_module_is_stored_with_each_shared_tensor_once(tmp_path: Path) -> None:
    one, other = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False)
    other.weight = one.weight
    _, tensors, _ = store_and_read(torch.nn.Sequential(one, other), tmp_path)
    assert list(tensors) == ["0.weight"]


@pytest.mark.parametrize("tied", [True, False])
def test_nothing_finer_is_stored_than_the_server_computes_in(tmp_path: Path, tied: bool) -> None:
    _, tensors, _ = store_and_read(module(tied=tied), tmp_path, "bfloat16")
    assert {torch.bfloat16} == {tensor.dtype for tensor in tensors.values()}
    assert tied == ("lm_head.weight" not in tensors)


def test_coarser_weights_stay_as_they_are(tmp_path: Path) -> None:
    _, tensors, _ = store_and_read(module(dtype=torch.bfloat16), tmp_path, "float32")
    assert {torch.bfloat16} == {tensor.dtype for tensor in tensors.values()}


def test_of_a_module_with_adapters_only_these_are_stored(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="adapters need peft")
    adapted = peft.get_peft_model(module(), peft.LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
    adapter, tensors, config = store_and_read(adapted, tmp_path)
    assert (adapter, config["r"]) == (True, 2)
    assert tensors
    assert all("lora_" in name for name in tensors)


def test_files_are_removed_after_use(tmp_path: Path) -> None:
    store_and_read(module(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_files_are_removed_when_the_use_fails(tmp_path: Path) -> None:
    async def use() -> None:
        async with store_weights(module(), tmp_path):
            raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"):
        asyncio.run(use())
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_used_as_it_is_and_stays(tmp_path: Path) -> None:
    module().save_pretrained(tmp_path / "checkpoint")
    adapter, tensors, _ = store_and_read(tmp_path / "checkpoint", tmp_path / "place")
    assert (adapter, bool(tensors)) == (False, True)
    assert (tmp_path / "checkpoint" / "model.safetensors").exists()


def test_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a torch module or a directory, not 17"):
        store_and_read(17, tmp_path)


def test_files_go_into_memory_where_it_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astuner_vllm.weights.MEMORY", tmp_path / "memory")
    assert tmp_path / "run" / "weights" == place_for(module(), tmp_path / "run", same_machine=True)
    (tmp_path / "memory").mkdir()
    assert tmp_path / "memory" == place_for(module(), tmp_path / "run", same_machine=True)


def test_servers_elsewhere_get_files_in_the_run_directory(tmp_path: Path) -> None:
    assert tmp_path / "weights" == place_for(module(), tmp_path, same_machine=False)


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_uses_stays(tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    left, used = (tmp_path / f"astuner-weights-{pid}-x" for pid in (dead.pid, os.getpid()))
    for home in (left, used):
        home.mkdir()
    remove_leftovers(tmp_path)
    assert [used] == list(tmp_path.iterdir())
