"""Errors for native keys that our keys decide, that 0.6.0 has renamed or ignores, or that contradict each other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from astuner.settings.config.structure_errors import Fault
from astuner.settings.config.trees import flatten, get, merge
from astuner_trinity.native_keys import LOSS, OF_OUR_LOSS

CORE_PLAYS = "astuner reads the tasks, plays and judges the episodes, and computes the advantages"
SIBLINGS = "siblings are played at the same time and judged together, by one process"
VALIDATION = "trainer_common.val_before_train and test_freq decide when validation is played"
STEPS = "trainer_common.total_epochs and total_training_steps decide the length of a run, buffer.total_steps that of a stage"
IGNORED = "Trinity sets it itself, and leaves out what is written here"
DROPPED = "Trinity reads nothing of it"
SET_BY_TRINITY = "Trinity sets it itself"
NO_CRITIC = "no algorithm here trains a critic"

FROZEN: Mapping[str, str] = {
    # Renamed since the guide was written.
    "buffer.default_workflow_type": "it is called buffer.explorer_input.default_workflow_type; rollout.user_workflow decides it",
    "buffer.default_reward_fn_type": "it is called buffer.explorer_input.default_reward_fn_type; task_judge decides it",
    "buffer.explorer_input.taskset.task_selector*": "it is called data_selector, and the tasks come in core's order",
    "explorer.runner_num": "it is deprecated: explorer.runner_per_model counts the runners of each engine",
    "algorithm.optimizer.warmup_style": "it is deprecated: trainer_common.optim.lr_scheduler_type decides it",
    "trainer.trainer_config_path": "it is deprecated: write the keys under trainer.trainer_config",
    # Decided by our keys.
    "project": "project_name decides it",
    "name": "experiment_name decides it",
    "checkpoint_root_dir": "everything of a run is in its directory (experiment_dir)",
    "checkpoint_job_dir": SET_BY_TRINITY,
    "continue_from_checkpoint": "`astuner run --resume` decides it",
    "model.model_path": "model.path decides it",
    "model.critic_model_path": NO_CRITIC,
    "model.custom_chat_template": "model.chat_template decides it",
    "model.chat_template_path": "model.chat_template decides it",
    "model.enable_thinking": "the gateway renders conversations; a workflow passes chat_template_kwargs with its calls",
    "model.max_model_len": "rollout.max_model_len decides it, for engine and gateway",
    "model.max_prompt_tokens": "data.max_prompt_length decides it",
    "model.max_response_tokens": "data.max_response_length decides it",
    "model.temperature": "rollout.temperature decides it, for sampler and trainer",
    "model.top_p": "rollout.top_p decides it",
    "model.top_k": "rollout.top_k decides it",
    "model.min_response_tokens": "the gateway asks for token ids, and never for a least number",
    "model.logprobs": "each sampled token comes with its log-probability",
    "model.repetition_penalty": "training wants the distribution of the model itself",
    "model.rope_*": "write it into the model's own config.json, which engine and trainer both read",
    "buffer.batch_size": "data.train_batch_size decides it",
    "buffer.total_*": STEPS,
    "buffer.explorer_output*": SET_BY_TRINITY,
    "buffer.tokenizer_path": SET_BY_TRINITY,
    "buffer.cache_dir": SET_BY_TRINITY,
    "buffer.explorer_input.*": CORE_PLAYS,
    "algorithm.repeat_times": "rollout.num_repeat decides it",
    "algorithm.sample_strategy_args.*": "trainer_common and data decide it",
    "algorithm.policy_loss_fn_args.sequence_parallel": "trainer_common.ulysses_sequence_parallel_size decides it",
    "algorithm.optimizer.clip_grad": "trainer_common.grad_clip decides it",
    "algorithm.optimizer.lr_*": "trainer_common.optim decides it, step by step",
    "algorithm.optimizer.min_lr_ratio": "trainer_common.optim decides it, step by step",
    "algorithm.rollout_correction*": "trainer_common.algorithm.rollout_is and rollout_rs correct for the sampler",
    "model.enable_prompt_truncation": "a prompt that does not fit ends its episode, and is counted",
    "algorithm.enable_router_replay": "rows carry no routed experts to replay",
    "explorer.concurrent_mode": SIBLINGS,
    "explorer.max_repeat_times_per_runner": SIBLINGS,
    "explorer.max_retry_times": "rollout.max_retries decides it, for single episodes",
    "explorer.eval_interval": VALIDATION,
    "explorer.eval_on_startup": f"the mode bench begins with model.path; elsewhere {VALIDATION}",
    "explorer.rollout_model.model_path": "model.path decides it",
    "explorer.rollout_model.chat_template": "model.chat_template decides it",
    "explorer.rollout_model.enable_thinking": "the gateway renders conversations",
    "explorer.rollout_model.enable_history": "the gateway records every call, with its exact ids",
    "explorer.rollout_model.enable_openai_api": "the gateway asks the engine's server",
    "explorer.rollout_model.enable_auto_tool_choice": "the gateway reads tool calls off the tokens",
    "explorer.rollout_model.tool_call_parser": "model.tool_call_format decides it: the gateway reads tool calls off the tokens",
    "explorer.rollout_model.reasoning_parser": "the gateway reads reasoning off the tokens",
    "explorer.rollout_model.max_*": "rollout.max_model_len and max_response_length_in_one_turn decide it",
    "explorer.rollout_model.min_response_tokens": "the gateway asks for token ids, and never for a least number",
    "explorer.rollout_model.enable_prompt_truncation": "a prompt that does not fit ends its episode, and is counted",
    "explorer.rollout_model.temperature": "rollout.temperature decides it",
    "explorer.rollout_model.top_p": "rollout.top_p decides it",
    "explorer.rollout_model.top_k": "rollout.top_k decides it",
    "explorer.rollout_model.logprobs": "each sampled token comes with its log-probability",
    "explorer.rollout_model.repetition_penalty": "training wants the distribution of the model itself",
    "explorer.rollout_model.ignore_eos": "an answer ends where the model ends it",
    "explorer.rollout_model.rope_*": "write it into the model's own config.json",
    "explorer.rollout_model.gpu_per_engine": SET_BY_TRINITY,
    "explorer.rollout_model.nnodes": SET_BY_TRINITY,
    "explorer.rollout_model.node_rank": SET_BY_TRINITY,
    "explorer.rollout_model.bundle_indices": SET_BY_TRINITY,
    "explorer.rollout_model.engine_id": SET_BY_TRINITY,
    "explorer.rollout_model.ray_*": SET_BY_TRINITY,
    "explorer.rollout_model.sync_method": SET_BY_TRINITY,
    "explorer.rollout_model.checkpoint_job_dir": SET_BY_TRINITY,
    "explorer.rollout_model.cuda_visible_devices": SET_BY_TRINITY,
    "explorer.rollout_model.*lora*": "model.lora_rank, lora_alpha and target_modules decide it",
    "explorer.rollout_model.external_model_config.*": "external engines train nothing, and 0.6.0's runners cannot reach them",
    "trainer.total_steps": STEPS,
    "trainer.save_hf_checkpoint": "each checkpoint is a model that other tools load",
    "trainer.trust_remote_code": SET_BY_TRINITY,
    "monitor.cache_dir": SET_BY_TRINITY,
    "log.save_dir": SET_BY_TRINITY,
    "cluster.ray_address": "RAY_ADDRESS decides it",
    "cluster.total_gpu_num": SET_BY_TRINITY,
    "cluster.rollout_gpu_num": SET_BY_TRINITY,
    "cluster.auxiliary_model_gpu_num": SET_BY_TRINITY,
    "cluster.explorer_gpu_num": SET_BY_TRINITY,
    "cluster.trainer_*": SET_BY_TRINITY,
    "synchronizer.explorer_world_size": SET_BY_TRINITY,
    "synchronizer.ray_namespace": SET_BY_TRINITY,
    "synchronizer.wait_for_checkpoint": "0.6.0 reads it nowhere",
    "data_processor.task_pipeline*": "the tasks come from task_reader; run Data-Juicer over the file that it reads, beforehand",
    # verl's keys that Trinity's FROZEN_KEYS omit without an error, and those that nothing reads.
    **{
        f"trainer.trainer_config*{key}": IGNORED
        for key in (
            ".model.path",
            ".model.trust_remote_code",
            ".model.use_remove_padding",
            ".model.custom_chat_template",
            ".model.lora_rank",
            ".model.lora_alpha",
            ".model.target_modules",
            ".model.exclude_modules",
            ".model.lora_adapter_path",
            ".strategy",
            ".ppo_mini_batch_size",
            ".actor.use_dynamic_bsz",
            ".critic.use_dynamic_bsz",
            ".ppo_max_token_len_per_gpu",
            ".ppo_infer_max_token_len_per_gpu",
            ".use_kl_loss",
            ".loss_agg_mode",
            ".rollout_n",
            ".grad_clip",
            ".ulysses_sequence_parallel_size",
            ".actor.use_remove_padding",
            ".ref.use_remove_padding",
            ".log_prob_use_dynamic_bsz",
            ".log_prob_max_token_len_per_gpu",
            ".rollout.temperature",
            ".rollout.n",
            ".critic.enable",
            ".forward_max_token_len_per_gpu",
        )
    },
    "trainer.trainer_config*.model.external_lib": "it loads what makes each of our steps one optimizer step",
    "trainer.trainer_config*.actor.ppo_epochs": "each row is trained once",
    "trainer.trainer_config*.actor.shuffle": "a step is one mini-batch, whatever the order of its rows",
    "trainer.trainer_config*.actor.optim.*": "trainer_common.optim decides it, step by step",
    "trainer.trainer_config*.actor.checkpoint.*": "a checkpoint is a model that other tools load, and what training needs",
    "trainer.trainer_config*.critic.*": NO_CRITIC,
    "trainer.trainer_config.actor_rollout_ref.hybrid_engine": DROPPED,
    "trainer.trainer_config.trainer.*": DROPPED,
    "trainer.trainer_config.algorithm.*": DROPPED,
    "trainer.trainer_config.data.*": DROPPED,
}
"""Native keys (shell patterns) that cannot be set, with what to do instead."""

MODES = ("both", "colocate", "explore", "train", "bench", "serve")
STYLES = ("fixed", "explorer_driven", "trainer_driven", "fully_async")
TOGETHER = ("both", "colocate")
"""Modes in which a trainer waits for new rows."""
FIXED_NUMBER = (
    "a fixed number of rows (buffer.train_batch_size), however many a step has: the trainer would wait for those of an episode "
    "that failed, or mix steps."
)
RENAMED_PRIORITY = {"linear_decay_use_count_control_randomization": "decay_limit_randomization"}
BUFFER = "buffer.trainer_input.experience_buffer"
SHAPING = "reward_shaping_mapper"
WRITTEN = ("sft", "cpt", "dpo")
"""Algorithms that train on given data, with Trinity's own optimizer steps."""
NO_ARGUMENT = (
    "trainer_common.algorithm.policy_loss names the loss, and trainer_common.algorithm.NAME holds its options; those of ppo_clip "
    "are trainer_common.clip_ratio_low, clip_ratio_high and clip_ratio_c. For one of Trinity's own set algorithm_type too."
)
OWN_FUNCTIONS = ("advantage_fn", "policy_loss_fn", "kl_loss_fn", "kl_penalty_fn", "entropy_loss_fn", "sample_strategy")


def find_refused_keys(native: Mapping[str, Any], *, ours: bool) -> tuple[Fault, ...]:
    """Return errors in values that Trinity itself would accept; `ours` for our algorithm."""
    return tuple(
        Fault(path=tuple(path.split(".")), message=message, suggestion=suggestion)
        for path, message, suggestion in _check_run(native, ours)
    )


def find_stage_faults(native: Mapping[str, Any], *, ours: Collection[str]) -> tuple[Fault, ...]:
    """Return errors in stages, each merged with the run, and their keys that cannot be set; `ours` are our algorithms."""
    of_the_run = set(_check_run(native, native["algorithm"]["algorithm_type"] in ours))
    return tuple(
        Fault(path=(f"stages[{place}]", *fault[0].split(".")), message=fault[1], suggestion=fault[2])
        for place, stage in enumerate(native["stages"])
        for fault in _check_stage(native, stage, ours)
        if fault not in of_the_run
    )


def _check_stage(
    native: Mapping[str, Any], stage: Mapping[str, Any], ours: Collection[str]
) -> Iterator[tuple[str, str, str | None]]:
    said = {name: value for name, value in stage.items() if value is not None}
    whole = merge(native, {**said, "stages": []})
    kind = whole["algorithm"]["algorithm_type"]
    for key in flatten(said):
        reason = next((reason for pattern, reason in FROZEN.items() if fnmatchcase(key, pattern)), None)
        if reason is not None and not _belongs_to_stages(key, kind):
            yield key, f"cannot be set here: {reason}.", None
    yield from _check_run(whole, kind in ours)


def _belongs_to_stages(key: str, algorithm: str) -> bool:
    return key == "buffer.total_steps" or (algorithm in WRITTEN and key.startswith("algorithm.optimizer."))


def _check_run(native: Mapping[str, Any], ours: bool) -> Iterator[tuple[str, str, str | None]]:
    mode, trainer, engine = native["mode"], native["trainer"], native["explorer"]["rollout_model"]
    algorithm, synchronizer = native["algorithm"], native["synchronizer"]
    if mode not in MODES:
        yield "mode", f"unknown mode {mode!r}; the modes are {', '.join(MODES)}.", None
    if trainer["trainer_type"] != "verl":
        yield (
            "trainer.trainer_type",
            "only verl is supported: Tinker's trainer needs its own service, and takes neither the loss nor the factors of "
            "this backbone.",
            "verl",
        )
    for name, what in (("tinker", "Tinker's"), ("external_model", "an external model's")):
        if native["model"][name]["enable"]:
            yield (
                f"model.{name}.enable",
                f"{what} engine is not supported: training needs engines that take token ids and new weights, and 0.6.0's "
                "runners look for an engine's actor, of which it has none. The judge or the workflow may ask any endpoint.",
                None,
            )
    if engine["engine_type"] != "vllm":
        yield (
            "explorer.rollout_model.engine_type",
            f"{engine['engine_type']!r} is not supported; rollout.name chooses the engine.",
            "vllm",
        )
    if trainer["trainer_strategy"] not in ("fsdp", "fsdp2"):
        yield "trainer.trainer_strategy", f"{trainer['trainer_strategy']!r} is not supported; choose fsdp2 or fsdp.", "fsdp2"
    if not ours and algorithm["algorithm_type"] in ("ppo",):
        yield "algorithm.algorithm_type", "ppo trains a critic, for which our rows carry no values; use one without.", "grpo"
    if not ours and mode in TOGETHER and not native["stages"]:
        yield from _check_steps(algorithm)
    if algorithm["algorithm_type"] in WRITTEN and mode not in ("train", "bench", "serve"):
        yield (
            "algorithm.algorithm_type",
            f"{algorithm['algorithm_type']!r} trains on what others wrote, and plays nothing: the mode is {mode!r}, and train is "
            "wanted, with buffer.trainer_input.experience_buffer.path.",
            None,
        )
    elif algorithm["algorithm_type"] in WRITTEN and mode == "train" and trainer["save_interval"] < 1:
        yield (
            "trainer.save_interval",
            f"{algorithm['algorithm_type']!r} hands its weights over in checkpoints, and none is saved: set "
            "trainer_common.save_freq to 1 or more.",
            None,
        )
    if ours:
        for name in OWN_FUNCTIONS:
            value = str(algorithm[name])
            if value != "none" and not value.startswith("astuner_trinity."):
                yield (
                    f"algorithm.{name}",
                    f"{value!r} belongs to algorithms of Trinity's own: set algorithm.algorithm_type too, for example to gspo. "
                    "Advantages and loss are then Trinity's, and not those of the other backbones, which "
                    "trainer_common.algorithm.adv_estimator and policy_loss name.",
                    None,
                )
        for name in (algorithm["policy_loss_fn_args"] or {}).keys() - OF_OUR_LOSS:
            yield f"{LOSS}.{name}", NO_ARGUMENT, None
        if not algorithm["bypass_old_logprobs"]:
            yield "algorithm.bypass_old_logprobs", "the loss is held against the probabilities of the sampler.", None
        if algorithm["loss_agg_mode"] is not None:
            yield "algorithm.loss_agg_mode", "trainer_common.loss_agg_mode decides it.", None
        if native["buffer"]["trainer_input"]["auxiliary_buffers"]:
            yield (
                "buffer.trainer_input.auxiliary_buffers",
                "only algorithms of Trinity's own read them: set algorithm.algorithm_type, for example to mix in the mode train.",
                None,
            )
        for operator in get(native, "data_processor.experience_pipeline.operators") or ():
            if isinstance(operator, Mapping) and operator.get("name") == SHAPING:
                yield (
                    "data_processor.experience_pipeline.operators",
                    f"{SHAPING!r} changes rewards after the advantages were computed of them, so it would train nothing: let the "
                    "judge weigh (task_judge), or set algorithm.algorithm_type to one of Trinity's own, for example to grpo.",
                    None,
                )
    if native["monitor"]["monitor_args"] and str(native["monitor"]["monitor_type"]).startswith("astuner_trinity."):
        yield (
            "monitor.monitor_args",
            "applies to a monitor of Trinity, and none is chosen: set monitor.monitor_type too, for example to wandb. It "
            "writes in addition to core's loggers.",
            None,
        )
    style = synchronizer["sync_style"]
    if style == "fully_async" and synchronizer["sync_offset"]:
        yield "synchronizer.sync_offset", "fully_async takes new weights whenever there are some; the offset has no effect.", None
    if native["explorer"]["over_rollout"]["ratio"] and style == "fixed":
        yield "explorer.over_rollout.ratio", "not with the sync_style fixed; choose explorer_driven or trainer_driven.", None
    yield from _check_buffer(native)


def _check_steps(algorithm: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    if str(algorithm["algorithm_type"]).startswith("mix"):
        yield (
            "algorithm.algorithm_type",
            f"{algorithm['algorithm_type']} takes {FIXED_NUMBER} Train on written answers in a stage of its own "
            "(algorithm_type: sft), or mix in the mode train.",
            None,
        )
    elif not str(algorithm["sample_strategy"]).startswith("astuner_trinity."):
        yield "algorithm.sample_strategy", f"{algorithm['sample_strategy']!r} takes {FIXED_NUMBER} Leave it out.", None


def _check_buffer(native: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    buffer = native["buffer"]["trainer_input"]["experience_buffer"] or {}
    storage, path = buffer.get("storage_type"), buffer.get("path")
    if native["mode"] == "train" and not path and not native["stages"]:
        yield (
            f"{BUFFER}.path",
            "missing: in the mode train the rows come from a buffer that was written before, for example sqlite:///rows.db with "
            "storage_type sql.",
            None,
        )
    if native["mode"] in ("both", "colocate") and storage == "file":
        yield f"{BUFFER}.storage_type", "a file cannot be read while it is written; choose queue or sql.", "queue"
    if native["mode"] in TOGETHER and storage == "sql" and not native["stages"] and not _takes_turns(native):
        yield (
            f"{BUFFER}.storage_type",
            "Trinity reads a table from its newest row on, so a trainer that finds several steps in it would mix them: sql only "
            "where explorer and trainer take turns (sync_style fixed, sync_interval 1, sync_offset 0, no replay buffer).",
            "queue",
        )
    priority = (buffer.get("replay_buffer") or {}).get("priority_fn")
    if priority in RENAMED_PRIORITY:
        renamed = RENAMED_PRIORITY[priority]
        yield f"{BUFFER}.replay_buffer.priority_fn", f"{priority!r} is called {renamed!r} in Trinity-RFT 0.6.0.", renamed


def _takes_turns(native: Mapping[str, Any]) -> bool:
    """Whether each step is played only after the previous one was trained."""
    synchronizer = native["synchronizer"]
    intervals = {synchronizer[f"{who}sync_interval"] for who in ("", "explorer_", "trainer_")} - {None}
    replay = native["buffer"]["trainer_input"]["experience_buffer"].get("replay_buffer") or {}
    return bool(
        synchronizer["sync_style"] == "fixed"
        and not synchronizer["sync_offset"]
        and intervals == {1}
        and not replay.get("enable")
    )
