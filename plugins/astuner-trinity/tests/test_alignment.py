"""Every key of ours reaches Trinity's configuration, or is answered for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from astuner.settings.config.native import Native
from astuner.settings.config.trees import get
from astuner.settings.planning.key_coverage import HonourTable, find_unaccounted_keys, walk_schema
from astuner_trinity.backbone import TrinityBackbone

ENGINE, LOSS, BATCHES = "explorer.rollout_model", "algorithm.policy_loss_fn_args", "algorithm.sample_strategy_args"


def test_every_key_is_accounted_for() -> None:
    assert find_unaccounted_keys(TrinityBackbone) == []


def test_no_honoured_key_is_refused_or_idle_by_mistake() -> None:
    table = HonourTable.of(TrinityBackbone)
    idle = {key for key in walk_schema() if table.find_honour(key).status in ("inapplicable", "refused")}
    assert {key for key in idle if key.startswith(("trainer_common", "model", "data", "rollout."))} == {
        "data.sampler",
        "model.adapters.*",
        "model.opponents.*",
        "rollout.gamma",
        "rollout.players",
        "trainer_common.algorithm.entropy_ctrl.delta",
        "trainer_common.algorithm.entropy_ctrl.most",
        "trainer_common.algorithm.filter_groups.max_num_gen_batches",
        "trainer_common.algorithm.kl_ctrl.kl_coef",
        "trainer_common.algorithm.kl_penalty",
        "trainer_common.algorithm.task_norm_patch",
    }


TARGETS: list[tuple[str, str, Any]] = [
    ("model.path=org/other", "model.model_path", "org/other"),
    ("model.chat_template='{{ messages }}'", "model.custom_chat_template", "{{ messages }}"),
    ("model.dtype=float32", f"{ENGINE}.dtype", "float32"),
    ("data.train_batch_size=12", "buffer.batch_size", 12),
    ("data.train_batch_size=12", "buffer.train_batch_size", 48),
    ("rollout.num_repeat=6", "algorithm.repeat_times", 6),
    ("rollout.num_repeat=6", "buffer.train_batch_size", 192),
    ("rollout.multi_turn.expected_steps=3", "buffer.train_batch_size", 384),
    ("rollout.name=vllm", f"{ENGINE}.engine_type", "vllm"),
    ("rollout.n_vllm_engine=3", f"{ENGINE}.engine_num", 3),
    ("rollout.tensor_model_parallel_size=2", f"{ENGINE}.tensor_parallel_size", 2),
    ("rollout.max_num_seqs=99", f"{ENGINE}.extra_engine_args.max_num_seqs", 99),
    ("rollout.max_model_len=40000", "model.max_model_len", 40000),
    ("rollout.max_model_len=40000", "trainer.max_token_len_per_gpu", 40000),
    ("rollout.max_env_worker=16", "explorer.runner_per_model", "auto"),
    ("rollout.temperature=0.7", "model.temperature", 0.7),
    ("rollout.top_p=0.8", "model.top_p", 0.8),
    ("rollout.top_k=20", "model.top_k", 20),
    ("trainer_common.save_freq=7", "trainer.save_interval", 7),
    ("trainer_common.save_freq=-1", "trainer.save_interval", 0),
    ("trainer_common.max_checkpoints_to_keep=3", "trainer.max_checkpoints_to_keep", 3),
    ("trainer_common.nnodes=3", "cluster.node_num", 3),
    ("trainer_common.n_gpus_per_node=4", "cluster.gpu_per_node", 4),
    ("trainer_common.optim.lr=3.0e-5", "algorithm.optimizer.lr", 3e-5),
    ("trainer_common.optim.lr_warmup_steps=4", f"{BATCHES}.lr_warmup_steps", 4),
    ("trainer_common.optim.lr_scheduler_type=cosine", f"{BATCHES}.lr_scheduler_type", "cosine"),
    ("trainer_common.optim.weight_decay=0.2", "algorithm.optimizer.weight_decay", 0.2),
    ("trainer_common.optim.betas=[0.8,0.9]", "algorithm.optimizer.betas", [0.8, 0.9]),
    ("trainer_common.grad_clip=0.3", "trainer.grad_clip", 0.3),
    ("trainer_common.algorithm.entropy_ctrl.coeff=0.01", "algorithm.entropy_loss_fn_args.entropy_coef", 0.01),
    ("trainer_common.kl_loss_coef=0.5", f"{LOSS}.kl_loss_coef", 0.5),
    ("trainer_common.use_kl_loss=false", f"{LOSS}.kl_loss_coef", 0.0),
    ("trainer_common.use_kl_loss=false", "algorithm.algorithm_type", "astuner_trinity.algorithm.GroupRelative"),
    ("trainer_common.kl_loss_type=mse", f"{LOSS}.kl_loss_type", "mse"),
    ("trainer_common.loss_agg_mode=seq-mean-token-sum", f"{BATCHES}.loss_agg_mode", "seq-mean-token-sum"),
    ("data.max_response_length=99", f"{BATCHES}.max_response_length", 99),
    ("data.max_response_length=99", "model.max_response_tokens", 99),
    ("data.max_prompt_length=77", "model.max_prompt_tokens", 77),
    ("trainer_common.fsdp_config.param_offload=false", "trainer.param_offload", False),
    ("trainer_common.fsdp_config.optimizer_offload=false", "trainer.optimizer_offload", False),
    ("trainer_common.ulysses_sequence_parallel_size=2", "trainer.ulysses_sequence_parallel_size", 2),
    ("trainer_common.total_epochs=7", "buffer.total_epochs", 7),
    ("seed=7", f"{ENGINE}.seed", 7),
    ("project_name=mine", "project", "mine"),
    ("experiment_name=run", "name", "run"),
]


@pytest.mark.parametrize(("setting", "native_key", "value"), TARGETS)
def test_a_key_of_ours_reaches_trinity(tree: Callable[..., dict[str, Any]], setting: str, native_key: str, value: Any) -> None:
    found = get(tree(setting), native_key)
    assert (list(found) if isinstance(found, tuple) else found) == value


def test_validation_sampling_reaches_the_evaluation_taskset(tree: Callable[..., dict[str, Any]]) -> None:
    settings = ("temperature=0.5", "top_p=0.6", "top_k=3", "do_sample=true")
    found = tree(*(f"rollout.val_kwargs.{one}" for one in settings), "trainer_common.val_pass_n=9")
    (taskset,) = found["buffer"]["explorer_input"]["eval_tasksets"]
    assert taskset["rollout_args"] == {"temperature": 0.5, "top_p": 0.6, "top_k": 3}
    assert taskset["repeat_times"] == 9
    (greedy,) = tree("rollout.val_kwargs.temperature=0.5")["buffer"]["explorer_input"]["eval_tasksets"]
    assert greedy["rollout_args"]["temperature"] == 0.0


def test_adapters_reach_trinity(tree: Callable[..., dict[str, Any]]) -> None:
    found = tree("model.lora_rank=8", "model.lora_alpha=32", "model.target_modules=all-linear")
    assert found["model"]["lora_configs"] == [{"lora_rank": 8, "lora_alpha": 32, "target_modules": "all-linear"}]
    assert tree()["model"]["lora_configs"] is None


def test_another_sampler_is_refused_by_name() -> None:
    honour = HonourTable.of(TrinityBackbone).find_honour("data.sampler")
    assert (honour.status, "before it knows how earlier ones went" in honour.reason) == ("refused", True)


REFUSED = [
    ("trainer_common.mini_batch_num=2", "Trinity makes one optimizer step of a batch"),
    ("trainer_common.keep_best=true", "Trinity saves at its own pace"),
    ("trainer_common.algorithm.entropy_ctrl.target=0.5", "nothing reaches Trinity's trainer between two steps"),
    ("trainer_common.algorithm.use_kl_in_reward=true", "known to the trainer alone"),
    ("trainer_common.algorithm.filter_groups.enable=true", "before it knows their rewards"),
    ("rollout.name=sglang", "SGLang under Trinity is not supported"),
    ("rollout.name=local", "Trinity has no engine 'local'"),
    ("rollout.temperature=0", "there is no distribution to train"),
    ("model.lora_alpha=1.5", "Trinity takes whole numbers"),
    ("model.target_modules=[q_proj]", "takes one name"),
]


@pytest.mark.parametrize(("setting", "said"), REFUSED)
def test_a_key_that_trinity_cannot_honour_is_refused_with_the_reason(
    native: Callable[..., Native], setting: str, said: str
) -> None:
    more = ("model.lora_rank=8",) if "model" in setting else ()
    (problem,) = native(setting, *more).problems
    assert said in problem.message
    assert problem.key == f"astuner.{setting.partition('=')[0]}" or problem.key.startswith("astuner.model.lora")
