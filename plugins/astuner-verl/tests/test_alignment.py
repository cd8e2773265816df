"""Every key of ours reaches verl's configuration, or is answered for."""

from __future__ import annotations

from typing import Any

import pytest

from astuner.settings.config.trees import get
from astuner.settings.planning.key_coverage import HonourTable, find_unaccounted_keys, walk_schema
from astuner_verl.alignment import ALIGNMENT, SHARE
from astuner_verl.backbone import VerlBackbone

ACTOR, ROLLOUT, REF, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "ref", "model"))


def test_every_key_is_accounted_for() -> None:
    assert find_unaccounted_keys(VerlBackbone) == []


def test_no_honoured_key_is_refused_or_idle_by_mistake() -> None:
    table = HonourTable.of(VerlBackbone)
    idle = {key for key in walk_schema() if table.find_honour(key).status in ("inapplicable", "refused")}
    assert {key for key in idle if key.startswith(("trainer_common", "model", "data", "rollout."))} == {
        "model.adapters.*",
        "model.opponents.*",
        "rollout.gamma",
        "rollout.multi_turn.expected_steps",
        "rollout.n_vllm_engine",
        "trainer_common.algorithm.task_norm_patch",
    }


# What a user sets, and what verl must be told: a peer drops several of these silently.
TARGETS: list[tuple[str, str, Any]] = [
    ("model.lora_rank=8", f"{MODEL}.lora_rank", 8),
    ("model.chat_template='{{ messages }}'", f"{MODEL}.custom_chat_template", "{{ messages }}"),
    ("model.lora_alpha=32", f"{MODEL}.lora_alpha", 32),
    ("model.target_modules=[q_proj]", f"{MODEL}.target_modules", ["q_proj"]),
    ("model.dtype=bfloat16", f"{ACTOR}.fsdp_config.mixed_precision.param_dtype", "bf16"),
    ("model.dtype=float32", f"{REF}.fsdp_config.mixed_precision.param_dtype", "fp32"),
    ("data.max_prompt_length=77", "data.max_prompt_length", 77),
    ("data.max_response_length=78", "data.max_response_length", 78),
    ("data.train_batch_size=12", "data.train_batch_size", 12),
    ("rollout.name=sglang", f"{ROLLOUT}.name", "sglang"),
    ("rollout.temperature=0.7", f"{ROLLOUT}.temperature", 0.7),
    ("rollout.top_p=0.8", f"{ROLLOUT}.top_p", 0.8),
    ("rollout.top_k=20", f"{ROLLOUT}.top_k", 20),
    ("rollout.num_repeat=6", f"{ROLLOUT}.n", 6),
    ("rollout.tensor_model_parallel_size=2", f"{ROLLOUT}.tensor_model_parallel_size", 2),
    ("rollout.max_num_seqs=99", f"{ROLLOUT}.max_num_seqs", 99),
    ("rollout.max_model_len=40000", f"{ROLLOUT}.max_model_len", 40000),
    ("rollout.max_model_len=40000", f"{ACTOR}.ppo_max_token_len_per_gpu", 40000),
    ("rollout.val_kwargs.temperature=0.5", f"{ROLLOUT}.val_kwargs.temperature", 0.5),
    ("rollout.val_kwargs.top_p=0.6", f"{ROLLOUT}.val_kwargs.top_p", 0.6),
    ("rollout.val_kwargs.top_k=3", f"{ROLLOUT}.val_kwargs.top_k", 3),
    ("rollout.val_kwargs.do_sample=true", f"{ROLLOUT}.val_kwargs.do_sample", True),
    ("trainer_common.val_pass_n=9", f"{ROLLOUT}.val_kwargs.n", 9),
    ("trainer_common.nnodes=3", "trainer.nnodes", 3),
    ("trainer_common.n_gpus_per_node=4", "trainer.n_gpus_per_node", 4),
    ("trainer_common.optim.lr=3.0e-5", f"{ACTOR}.optim.lr", 3e-5),
    ("trainer_common.optim.weight_decay=0.2", f"{ACTOR}.optim.weight_decay", 0.2),
    ("trainer_common.optim.betas=[0.8,0.9]", f"{ACTOR}.optim.betas", [0.8, 0.9]),
    ("trainer_common.grad_clip=0.5", f"{ACTOR}.optim.clip_grad", 0.5),
    ("trainer_common.algorithm.entropy_ctrl.coeff=0.01", f"{ACTOR}.entropy_coeff", 0.01),
    ("trainer_common.algorithm.entropy_ctrl.coeff=0.01", f"{ACTOR}.calculate_entropy", True),
    ("trainer_common.algorithm.entropy_ctrl.target=0.5", f"{ACTOR}.calculate_entropy", True),
    ("trainer_common.loss_agg_mode=seq-mean-token-sum", f"{ACTOR}.loss_agg_mode", "seq-mean-token-sum"),
    ("trainer_common.use_kl_loss=false", f"{ACTOR}.use_kl_loss", False),
    ("trainer_common.kl_loss_coef=0.0", f"{ACTOR}.use_kl_loss", False),
    ("trainer_common.kl_loss_coef=0.04", f"{ACTOR}.kl_loss_coef", 0.04),
    ("trainer_common.kl_loss_type=mse", f"{ACTOR}.kl_loss_type", "mse"),
    ("trainer_common.algorithm.use_kl_in_reward=true", "algorithm.use_kl_in_reward", True),
    ("trainer_common.algorithm.kl_penalty=abs", "algorithm.kl_penalty", "abs"),
    ("trainer_common.algorithm.kl_ctrl.kl_coef=0.02", "algorithm.kl_ctrl.kl_coef", 0.02),
    ("trainer_common.fsdp_config.param_offload=false", f"{ACTOR}.fsdp_config.param_offload", False),
    ("trainer_common.fsdp_config.param_offload=false", f"{REF}.fsdp_config.param_offload", False),
    ("trainer_common.fsdp_config.optimizer_offload=false", f"{ACTOR}.fsdp_config.optimizer_offload", False),
    ("trainer_common.ulysses_sequence_parallel_size=2", f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size", 2),
    ("trainer_common.mini_batch_num=4", f"{ACTOR}.ppo_mini_batch_size", 8),
    ("seed=7", f"{ROLLOUT}.seed", 7),
    ("seed=7", f"{ACTOR}.fsdp_config.seed", 7),
    ("rollout.max_model_len=40000", f"{ROLLOUT}.log_prob_max_token_len_per_gpu", 40000),
    ("trainer_common.grad_clip=0.5", f"{ACTOR}.grad_clip", 0.5),
    ("trainer_common.ulysses_sequence_parallel_size=2", f"{REF}.fsdp_config.ulysses_sequence_parallel_size", 2),
]


@pytest.mark.parametrize(("ours", "theirs", "value"), TARGETS, ids=[f"{ours} -> {theirs}" for ours, theirs, _ in TARGETS])
def test_what_the_user_sets_reaches_verl(native: Any, ours: str, theirs: str, value: Any) -> None:
    assert get(native(ours).tree, theirs) == value


def test_no_row_of_the_table_is_untested() -> None:
    tested = {ours.partition("=")[0] for ours, _, _ in TARGETS}
    assert ALIGNMENT.keys - tested == {"model.path", "project_name", "experiment_name"}


def test_no_native_key_of_the_table_is_untested() -> None:
    tested = {theirs for _, theirs, _ in TARGETS}
    named = {native for row in ALIGNMENT.rows for native in row.native}
    assert named - tested == {f"{MODEL}.path", "trainer.project_name", "trainer.experiment_name"}


def test_every_native_key_of_the_table_is_one_of_verls(verl_yaml: Any) -> None:
    added = {f"{section}.fsdp_config.mixed_precision.param_dtype" for section in (ACTOR, REF)}
    added |= {f"{MODEL}.override_config.attn_implementation", SHARE}
    named = [key for row in ALIGNMENT.rows for key in row.native] + [constant.native for constant in ALIGNMENT.constants]
    assert [key for key in named if key not in added and not _has(verl_yaml, key)] == []


def _has(tree: Any, key: str) -> bool:
    for part in key.split("."):
        if not isinstance(tree, dict) or part not in tree:
            return False
        tree = tree[part]
    return True


def test_greedy_training_is_refused(native: Any) -> None:
    (problem,) = native("rollout.temperature=0").problems
    assert "no distribution to train" in problem.message


def test_an_engine_that_verl_lacks_is_refused(native: Any) -> None:
    (problem,) = native("rollout.name=scripted").problems
    assert "verl has no engine 'scripted'; it has vllm, sglang, transformers, and auto." in problem.message


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("actor_rollout_ref: {actor: {use_dynamic_bsz: false}}", "ppo_micro_batch_size_per_gpu: missing"),
        ("actor_rollout_ref: {actor: {strategy: megatron}}", "'megatron' is not supported; choose fsdp2 or fsdp"),
        (
            "actor_rollout_ref: {actor: {policy_loss: {loss_mode: gspo}}}",
            "cannot be set here: trainer_common.algorithm.policy_loss names the loss",
        ),
        (
            "actor_rollout_ref: {actor: {clip_ratio_high: 0.3}}",
            "cannot be set here: trainer_common.clip_ratio_low, clip_ratio_high and clip_ratio_c decide it",
        ),
        (
            "actor_rollout_ref: {actor: {entropy_coeff: 0.1}}",
            "cannot be set here: trainer_common.algorithm.entropy_ctrl.coeff decides it",
        ),
        (
            "algorithm: {rollout_correction: {rollout_is: token}}",
            "cannot be set here: trainer_common.algorithm.rollout_is, rollout_rs and their thresholds decide it",
        ),
        ("actor_rollout_ref: {rollout: {n: 3}}", "cannot be set here: rollout.num_repeat decides it"),
        ("actor_rollout_ref: {rollout: {gpu_memory_utilisation: 0.4}}", "Did you mean"),
        ("skip: {rollout_tq: {enable: true}}", "cannot be set here: astuner reads the tasks"),
        ("actor_rollout_ref: {model: {path: other}}", "cannot be set here: model.path decides it"),
        ("trainer: {nnodes: x}", "'x': a whole number from 1 is wanted"),
        ("astuner: {share_prefixes: maybe}", "'maybe': true, false or auto is wanted"),
        ("trainer: {v1: {trainer_mode: colocate_async}}", "'colocate_async' is not supported: verl's replay buffer would decide"),
    ],
)
def test_what_would_not_work_is_refused_with_its_place(native: Any, raw: str, said: str) -> None:
    found = native(text=f"verl:\n  {raw}\n")
    assert any(said in str(problem) for problem in found.problems), [str(problem) for problem in found.problems]
    assert any("run.yaml:6" in str(problem) for problem in found.problems)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("trainer_common.n_gpus_per_node=3", "rollout.tensor_model_parallel_size=2"), "2 does not divide the 3 GPUs"),
        (("trainer_common.n_gpus_per_node=3", "trainer_common.ulysses_sequence_parallel_size=2"), "2 does not divide the 3 GPUs"),
        (("model.lora_alpha=1.5",), "verl takes whole numbers"),
        (
            ("trainer_common.nnodes=2", "trainer_common.n_gpus_per_node=6", "rollout.tensor_model_parallel_size=4"),
            "an engine would lie across nodes",
        ),
        (("trainer_common.n_gpus_per_node=0",), "verl needs one worker at least"),
    ],
)
def test_workers_that_do_not_divide_are_refused(native: Any, overrides: tuple[str, ...], said: str) -> None:
    assert any(said in problem.message for problem in native(*overrides).problems)


def test_a_raw_key_goes_through(native: Any) -> None:
    found = native(text="verl:\n  actor_rollout_ref: {rollout: {gpu_memory_utilization: 0.4}}\n")
    assert (found.problems, get(found.tree, f"{ROLLOUT}.gpu_memory_utilization")) == ((), 0.4)
