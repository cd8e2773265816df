"""What is put in the place of `auto`, and what a machine cannot do."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.errors import ConfigError
from astuner.settings.config.rollout import Rollout
from astuner.settings.config.trees import flatten, get
from astuner.shared.install_hints import install_command
from astuner_verl.alignment import SHARE
from astuner_verl.native_configuration import Machine, resolve_configuration

ACTOR, ROLLOUT, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))
CPU = Machine(device="cpu")
GPU = Machine(device="cuda", gpus_per_node=8, flash_attention=True, vllm=True, sglang=True)


@pytest.fixture
def finish(native: Any) -> Any:
    def of(machine: Machine, *overrides: str, text: str = "") -> dict[str, Any]:
        found = native(*overrides, text=text)
        assert found.problems == ()
        how = {"rollout": Rollout(), "model": "org/model", "loss_agg_mode": "seq-mean-token-mean", "steps": 5}
        return resolve_configuration(found.tree, machine, **how)

    return of


@pytest.mark.parametrize("machine", [CPU, GPU])
def test_no_code_of_a_model_is_run(finish: Any, machine: Machine) -> None:
    asked = [(path, value) for path, value in flatten(finish(machine)).items() if "trust_remote_code" in path]
    assert asked
    assert [path for path, value in asked if value] == []


EXPECTED = {
    "trainer.device": ("cpu", "cuda"),
    "trainer.n_gpus_per_node": (1, 8),
    f"{ROLLOUT}.name": ("transformers", "vllm"),
    f"{ROLLOUT}.dtype": ("float32", "bfloat16"),
    # 128 episodes at once on 8 engines.
    f"{ROLLOUT}.max_num_seqs": (10, 16),
    f"{ROLLOUT}.load_format": ("auto", "dummy"),
    f"{ACTOR}.use_torch_compile": (False, True),
    f"{ACTOR}.fsdp_config.mixed_precision.param_dtype": ("fp32", "bf16"),
    f"{ACTOR}.loss_agg_mode": ("seq-mean-token-mean", "seq-mean-token-mean"),
    f"{ACTOR}.optim.total_training_steps": (5, 5),
    f"{MODEL}.use_remove_padding": (False, True),
    f"{ACTOR}.use_dynamic_bsz": (True, True),
    f"{ACTOR}.calculate_entropy": (True, False),
    f"{MODEL}.override_config.attn_implementation": ("sdpa", "flash_attention_2"),
}


@pytest.mark.parametrize("key", EXPECTED)
def test_what_depends_on_the_machine(finish: Any, key: str) -> None:
    assert (get(finish(CPU), key), get(finish(GPU), key)) == EXPECTED[key]


def test_nothing_is_left_open(finish: Any) -> None:
    from astuner.settings.config.trees import flatten

    left = {key for machine in (CPU, GPU) for key, value in flatten(finish(machine)).items() if value == "auto"}
    # For an engine `auto` is a format like another.
    assert {key for key in left if not key.endswith("rollout.load_format") and not key.startswith("distillation.")} == set()


def test_what_the_user_sets_stays(finish: Any) -> None:
    text = "verl:\n  actor_rollout_ref: {model: {override_config: {attn_implementation: sdpa}}}\n"
    found = finish(GPU, "trainer_common.n_gpus_per_node=4", "model.dtype=float32", text=text)
    keys = ("trainer.n_gpus_per_node", f"{ROLLOUT}.dtype", f"{MODEL}.use_remove_padding")
    assert [get(found, key) for key in keys] == [4, "float32", False]


def test_padded_rows_on_a_gpu_are_passes_of_their_own(finish: Any) -> None:
    found = finish(evolve(GPU, flash_attention=False))
    keys = (f"{ACTOR}.use_dynamic_bsz", f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{MODEL}.use_remove_padding")
    assert [get(found, key) for key in keys] == [False, 1, False]


@pytest.mark.parametrize(
    ("machine", "overrides", "merged"),
    [
        (CPU, ("model.target_modules=[q_proj]",), False),
        (GPU, (), False),
        (GPU, ("model.target_modules=[q_proj, down_proj]",), False),
        (GPU, ("model.target_modules=[q_proj, embed_tokens]",), True),
        (GPU, ("model.lora_rank=600",), True),
        (GPU, ("rollout.name=sglang",), True),
    ],
)
def test_adapters_travel_alone_where_the_engine_applies_them(
    finish: Any, machine: Machine, overrides: tuple[str, ...], merged: bool
) -> None:
    assert get(finish(machine, "model.lora_rank=8", *overrides), f"{MODEL}.lora.merge") is merged


def test_prefixes_are_shared_without_a_gpu_or_where_asked_for(finish: Any) -> None:
    asked = "verl: {astuner: {share_prefixes: true}}\n"
    keys = (SHARE, f"{ACTOR}.use_dynamic_bsz", f"{MODEL}.use_remove_padding", f"{MODEL}.override_config.attn_implementation")
    found = [[get(finish(machine, text=text), key) for key in keys] for machine, text in ((CPU, ""), (GPU, ""), (GPU, asked))]
    assert found == [[True, True, False, "sdpa"], [False, True, True, "flash_attention_2"], [True, True, False, "sdpa"]]


def test_prefixes_cannot_be_shared_in_rows_without_padding(finish: Any) -> None:
    text = "verl:\n  astuner: {share_prefixes: true}\n  actor_rollout_ref: {model: {use_remove_padding: true}}\n"
    with pytest.raises(ConfigError, match="rows that share prefixes need passes of several rows"):
        finish(GPU, text=text)


def test_float32_does_without_flash_attention(finish: Any) -> None:
    assert get(finish(GPU, "model.dtype=float32"), f"{MODEL}.override_config.attn_implementation") == "sdpa"


@pytest.mark.skipif(find_spec("verl") is None, reason="verl is not installed")
@pytest.mark.parametrize("overrides", [(), ("model.lora_rank=8", "model.target_modules=[q_proj]")])
def test_verls_servers_take_the_model(finish: Any, overrides: tuple[str, ...]) -> None:
    """They structure it strictly, which its workers do not."""
    from omegaconf import OmegaConf
    from verl.workers.config import HFModelConfig

    model = {key: value for key, value in get(finish(GPU, *overrides), MODEL).items() if key != "_target_"}
    OmegaConf.merge(OmegaConf.structured(HFModelConfig), OmegaConf.create({"model": model}).model)


def test_without_vllm_a_gpu_takes_transformers(finish: Any) -> None:
    assert get(finish(evolve(GPU, vllm=False)), f"{ROLLOUT}.name") == "transformers"


@pytest.mark.parametrize(
    ("machine", "overrides", "text", "said"),
    [
        (GPU, ("trainer_common.n_gpus_per_node=9",), "", "9 on each of 1 node(s), and the cluster has 8 per node"),
        (CPU, ("rollout.name=vllm",), "", f"the engine 'vllm' is not installed: {install_command('astuner-verl')}"),
        (GPU, ("rollout.tensor_model_parallel_size=3",), "", "3 does not divide the 8 GPUs of the run"),
        (evolve(CPU, vllm=True), ("rollout.name=vllm",), "", "verl gives no new weights to 'vllm' without a GPU"),
        (GPU, ("rollout.name=sglang",), "", ""),
        (evolve(GPU, sglang=False), ("rollout.name=sglang",), "", "it needs its own environment"),
        (
            evolve(GPU, flash_attention=False),
            ("trainer_common.ulysses_sequence_parallel_size=2",),
            "",
            "a sequence can be spread only without padding, which needs flash-attention",
        ),
        (
            evolve(GPU, flash_attention=False),
            (),
            "verl:\n  actor_rollout_ref: {model: {override_config: {attn_implementation: flash_attention_2}}}\n",
            "flash-attention is not installed",
        ),
        (
            CPU,
            (),
            "verl:\n  actor_rollout_ref: {model: {use_remove_padding: true}}\n",
            "need flash-attention, which is not installed",
        ),
        (GPU, (), "verl:\n  trainer: {v1: {trainer_mode: separate_async}}\n", "and separate GPUs are not supported"),
        (CPU, (), "verl:\n  actor_rollout_ref: {actor: {strategy: fsdp}}\n", "without a GPU only fsdp2 computes"),
    ],
)
def test_what_the_machine_cannot_do_is_refused(finish: Any, machine: Machine, overrides: Any, text: str, said: str) -> None:
    if not said:
        assert get(finish(machine, *overrides, text=text), f"{ROLLOUT}.name") == "sglang"
        return
    with pytest.raises(ConfigError) as caught:
        finish(machine, *overrides, text=text)
    assert said in str(caught.value)
