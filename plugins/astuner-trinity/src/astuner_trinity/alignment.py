"""From our keys to Trinity's configuration (the dataclasses of 0.6.0). Imports neither Trinity nor torch.

Values that depend on the machine are `auto` in the native configuration of a plan; `astuner_trinity.native_configuration`
sets them when the run starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from astuner.settings.config.alignment import LEAVE, Alignment, Constant, Row
from astuner.settings.config.structure_errors import Fault
from astuner.shared.processes import LOOPBACK
from astuner_trinity.defaults import find_loader_faults, trinity_defaults
from astuner_trinity.imports import IMPORTS
from astuner_trinity.native_keys import (
    ALGORITHMS,
    BATCHES,
    ENGINE,
    ENTROPY,
    LONG_S,
    LOSS,
    MONITOR,
    PLAIN,
    TASKSET,
    VERL,
    WITH_REFERENCE,
)
from astuner_trinity.open_values import AUTO, fill_open_values
from astuner_trinity.refused_keys import FROZEN, find_refused_keys, find_stage_faults

NEVER = 10**9
TOKENS_PER_PASS = 16384
"""A longer context gets its own pass."""
OURS = "core and its parts inside of Trinity decide it"


def _check_temperature(temperature: float) -> float:
    if temperature == 0:
        raise ValueError("0 is greedy: there is no distribution to train. Set a temperature above 0, for example 1.0.")
    return temperature


def _engine(name: str) -> str:
    if name == "sglang":
        raise ValueError("SGLang under Trinity is not supported: its server returns token ids in another form. Choose vllm.")
    if name not in (AUTO, "vllm"):
        raise ValueError(f"Trinity has no engine {name!r}; choose vllm, or auto.")
    return "vllm"


def _lora(rank: int, alpha: float, modules: Any) -> Any:
    if not rank:
        return LEAVE
    if alpha != int(alpha):
        raise ValueError(f"{alpha}: Trinity takes whole numbers; {int(alpha) or 1} for example.")
    if not isinstance(modules, str):
        raise ValueError("Trinity takes one name, as in all-linear, and no list.")
    return [{"lora_rank": rank, "lora_alpha": int(alpha), "target_modules": modules}]


def _prompt(prompt: int, response: int, context: int) -> int:
    """Trinity refuses a prompt and an answer that together exceed the context; it reads them only for its own chats."""
    return max(1, min(prompt, context - _response(response, context)))


def _response(response: int, context: int) -> int:
    return max(1, min(response, context - 1))


def groups_at_once(workers: int, repeats: int, batch: int) -> int:
    """Return how many groups are played at a time: up to the limit of episodes, and to a step's groups."""
    return max(1, min(batch, math.ceil(workers / repeats)))


def _one(parts: int) -> Any:
    if parts != 1:
        raise ValueError(
            f"{parts}: Trinity makes one optimizer step of a batch (it fixes verl's ppo_mini_batch_size). Set 1, "
            "or train with the backbone 'verl' or 'local'."
        )
    return LEAVE


def _refuse(why: str, otherwise: Any = LEAVE) -> Callable[[Any], Any]:
    """Return what refuses a key that is set."""

    def check(wanted: Any) -> Any:
        if wanted:
            raise ValueError(why)
        return otherwise

    return check


_refuse_best = _refuse(
    "Trinity saves at its own pace, and not after a validation. Leave it out: save_freq and a later `astuner eval` of the "
    "checkpoints find the best one, or `trinity: {mode: bench}` measures them all.",
    "always",
)
_refuse_penalty = _refuse(
    "rewards are compared where episodes are played, and the reference's log-probabilities are known to the trainer alone. Use "
    "use_kl_loss, or the backbone 'verl' or 'local'.",
    "none",
)
_refuse_filter = _refuse(
    "the explorer draws a step's tasks before it knows their rewards. Raise rollout.num_repeat or data.train_batch_size, or use "
    "the backbone 'verl' or 'local'."
)
_refuse_target = _refuse(
    "nothing reaches Trinity's trainer between two steps. Set entropy_ctrl.coeff, which stays as it is, or use the backbone "
    "'verl' or 'local'."
)


def _algorithm(wanted: bool, coefficient: float) -> str:
    return WITH_REFERENCE if wanted and coefficient > 0 else PLAIN


def _validation(temperature: float, top_p: float, top_k: int, samples: bool, repeats: int) -> list[dict[str, Any]]:
    arguments = {"temperature": temperature if samples else 0.0, "top_p": top_p, "top_k": top_k}
    return [{"name": "validation", "storage_type": TASKSET, "path": AUTO, "repeat_times": repeats, "rollout_args": arguments}]


def _defaults() -> Mapping[str, Any]:
    """Return Trinity's defaults, with the number of engines left to the GPUs, and a server for this machine."""
    found = dict(trinity_defaults())
    explorer = found["explorer"]
    engine = {**explorer["rollout_model"], "engine_num": AUTO}
    return {**found, "explorer": {**explorer, "rollout_model": engine, "listen_address": LOOPBACK}}


def _check(native: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Return Trinity's complaints about the configuration, and keys without effect, or with an unexpected one."""
    found = find_refused_keys(native, ours=native["algorithm"]["algorithm_type"] in ALGORITHMS)
    return found or find_loader_faults(fill_open_values(native)) or find_stage_faults(native, ours=ALGORITHMS)


ALIGNMENT = Alignment(
    root="trinity",
    rows=(
        Row("project_name", "project"),
        Row("experiment_name", "name"),
        Row("model.path", "model.model_path"),
        Row("model.chat_template", "model.custom_chat_template"),
        Row("model.dtype", f"{ENGINE}.dtype"),
        Row(("model.lora_rank", "model.lora_alpha", "model.target_modules"), "model.lora_configs", value=_lora),
        Row(
            ("data.max_prompt_length", "data.max_response_length", "rollout.max_model_len"),
            "model.max_prompt_tokens",
            value=_prompt,
        ),
        Row(("data.max_response_length", "rollout.max_model_len"), "model.max_response_tokens", value=_response),
        Row("data.max_response_length", f"{BATCHES}.max_response_length"),
        Row("data.train_batch_size", "buffer.batch_size"),
        Row(
            ("data.train_batch_size", "rollout.num_repeat", "rollout.multi_turn.expected_steps"),
            "buffer.train_batch_size",
            value=lambda batch, repeats, expected: batch * repeats * expected,
        ),
        Row("rollout.num_repeat", "algorithm.repeat_times"),
        Row("rollout.name", f"{ENGINE}.engine_type", value=_engine),
        Row("rollout.n_vllm_engine", f"{ENGINE}.engine_num", only_if_set=True),
        Row("rollout.tensor_model_parallel_size", f"{ENGINE}.tensor_parallel_size"),
        Row("rollout.max_num_seqs", f"{ENGINE}.extra_engine_args.max_num_seqs"),
        Row("rollout.max_model_len", "model.max_model_len"),
        Row("rollout.max_model_len", "trainer.max_token_len_per_gpu", value=lambda context: max(TOKENS_PER_PASS, context)),
        Row(
            ("rollout.max_env_worker", "rollout.num_repeat", "data.train_batch_size"),
            "explorer.runner_per_model",
            # Divided once the number of engines is known.
            value=lambda workers, repeats, batch: AUTO,
        ),
        Row("rollout.temperature", "model.temperature", value=_check_temperature),
        Row("rollout.top_p", "model.top_p"),
        Row("rollout.top_k", "model.top_k"),
        Row(
            (
                "rollout.val_kwargs.temperature",
                "rollout.val_kwargs.top_p",
                "rollout.val_kwargs.top_k",
                "rollout.val_kwargs.do_sample",
                "trainer_common.val_pass_n",
            ),
            "buffer.explorer_input.eval_tasksets",
            value=_validation,
        ),
        Row("trainer_common.total_epochs", "buffer.total_epochs"),
        Row("trainer_common.keep_best", "trainer.save_hf_checkpoint", value=_refuse_best),
        Row("trainer_common.algorithm.use_kl_in_reward", "algorithm.kl_penalty_fn", value=_refuse_penalty),
        Row("trainer_common.algorithm.filter_groups.enable", f"{BATCHES}.filter_groups", value=_refuse_filter),
        Row("trainer_common.save_freq", "trainer.save_interval", value=lambda steps: max(0, steps)),
        Row("trainer_common.max_checkpoints_to_keep", "trainer.max_checkpoints_to_keep", value=lambda number: number or 0),
        Row("trainer_common.nnodes", "cluster.node_num", only_if_set=True),
        Row("trainer_common.n_gpus_per_node", "cluster.gpu_per_node", only_if_set=True),
        Row("trainer_common.mini_batch_num", f"{VERL}.actor.ppo_mini_batch_size", value=_one),
        Row("trainer_common.optim.lr", "algorithm.optimizer.lr"),
        Row("trainer_common.optim.lr_warmup_steps", f"{BATCHES}.lr_warmup_steps"),
        Row("trainer_common.optim.lr_scheduler_type", f"{BATCHES}.lr_scheduler_type"),
        Row("trainer_common.optim.weight_decay", "algorithm.optimizer.weight_decay"),
        Row("trainer_common.optim.betas", "algorithm.optimizer.betas"),
        Row("trainer_common.grad_clip", "trainer.grad_clip"),
        Row(("trainer_common.use_kl_loss", "trainer_common.kl_loss_coef"), "algorithm.algorithm_type", value=_algorithm),
        Row(("trainer_common.use_kl_loss", "trainer_common.kl_loss_coef"), f"{LOSS}.kl_loss_coef", value=lambda on, by: by * on),
        Row("trainer_common.kl_loss_type", f"{LOSS}.kl_loss_type"),
        Row("trainer_common.algorithm.entropy_ctrl.coeff", ENTROPY),
        Row("trainer_common.algorithm.entropy_ctrl.target", f"{ENTROPY}_target", value=_refuse_target),
        Row("trainer_common.token_record.enable", f"{LOSS}.token_parts", value=lambda wanted: AUTO if wanted else None),
        Row("trainer_common.loss_agg_mode", f"{BATCHES}.loss_agg_mode", value=lambda mode: mode or AUTO),
        Row("trainer_common.fsdp_config.param_offload", "trainer.param_offload"),
        Row("trainer_common.fsdp_config.optimizer_offload", "trainer.optimizer_offload"),
        Row("trainer_common.ulysses_sequence_parallel_size", "trainer.ulysses_sequence_parallel_size"),
        Row(("seed", "rollout.seed"), f"{ENGINE}.seed", value=lambda run, sampling: run if sampling is None else sampling),
    ),
    constants=(
        Constant("checkpoint_root_dir", AUTO, "the run directory"),
        Constant("ignore_validator_suggestions", True, "it would wait for an answer at the terminal"),
        Constant("algorithm.sample_strategy", "astuner_trinity.trainer.batches.StepBatches", "whole steps are trained"),
        Constant(
            "algorithm.advantage_fn", "astuner_trinity.explorer.row_counts.StepStamp", "advantages are computed once, in core"
        ),
        Constant("algorithm.optimizer.clip_grad", AUTO, "verl clips by it: trainer.grad_clip"),
        Constant("algorithm.policy_loss_fn", "astuner_trinity.trainer.loss.WeighedLoss", OURS),
        Constant("algorithm.kl_loss_fn", "none", OURS),
        Constant("algorithm.entropy_loss_fn", "astuner_trinity.trainer.loss.EntropyMeasure", OURS),
        Constant(f"{VERL}.actor.fsdp_config.entropy_checkpointing", True, "nothing is kept for the entropy's gradient"),
        Constant(f"{VERL}.actor.fsdp_config.entropy_from_logits_with_chunking", True, "so that the logits are not copied"),
        Constant("monitor.monitor_type", MONITOR, "core's loggers get what Trinity measures"),
        Constant("explorer.max_timeout", LONG_S, "rollout.episode_timeout_s and llm_timeout_s limit single episodes"),
        Constant("synchronizer.sync_timeout", LONG_S, "a step takes as long as its episodes"),
        Constant("model.enable_prompt_truncation", False, "a prompt that does not fit ends its episode, and is counted"),
        Constant("explorer.max_retry_times", 0, "core tries an episode again, not its group"),
        Constant("explorer.eval_interval", NEVER, "validation is played when trainer_common says"),
        Constant("explorer.eval_on_startup", False, "validation is played when trainer_common says"),
        Constant(f"{ENGINE}.enable_openai_api", True, "its server takes token ids"),
        Constant("trainer.use_remove_padding", AUTO, "where flash-attention is installed"),
        Constant(f"{VERL}.model.external_lib", "astuner_trinity.trainer.worker", "a step is one optimizer step"),
        Constant("data_processor.experience_pipeline.save_input", False, "the run store keeps every episode"),
        Constant("synchronizer.sync_method", AUTO, "nccl between GPUs, else memory"),
        Constant("buffer.explorer_input.taskset.name", "train", "task_reader decides the tasks"),
        Constant("buffer.explorer_input.taskset.storage_type", TASKSET, "task_reader decides the tasks"),
        Constant("buffer.explorer_input.taskset.path", AUTO, "the run's plan"),
        Constant("buffer.trainer_input.experience_buffer.name", "experience_buffer", OURS),
        Constant("buffer.trainer_input.experience_buffer.storage_type", "queue", OURS),
    ),
    defaults=_defaults,
    frozen=FROZEN,
    imports=IMPORTS,
    check=_check,
)
