"""The importer `trl`: what `trl grpo --config FILE` reads, as a run on one machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from astuner.settings.config.importers import Answer, Translation
from astuner.settings.config.trees import Tree, put
from astuner_local import trl_losses

Keys = Mapping[str, Any]

RENAMED: Mapping[str, str] = {
    "model_name_or_path": "model.path",
    "lora_r": "model.lora_rank",
    "lora_alpha": "model.lora_alpha",
    "run_name": "experiment_name",
    "seed": "seed",
    "max_prompt_length": "data.max_prompt_length",
    "max_completion_length": "data.max_response_length",
    "num_generations": "rollout.num_repeat",
    "temperature": "rollout.temperature",
    "top_p": "rollout.top_p",
    "learning_rate": "trainer_common.optim.lr",
    "weight_decay": "trainer_common.optim.weight_decay",
    "warmup_steps": "trainer_common.optim.lr_warmup_steps",
    "num_generations_eval": "trainer_common.val_pass_n",
    "shuffle_dataset": "data.shuffle",
    "vllm_max_model_length": "rollout.max_model_len",
    "max_tool_calling_iterations": "rollout.multi_turn.max_steps",
    "max_grad_norm": "trainer_common.grad_clip",
    "num_train_epochs": "trainer_common.total_epochs",
    "eval_on_start": "trainer_common.val_before_train",
    "save_total_limit": "trainer_common.max_checkpoints_to_keep",
    "mask_truncated_completions": "trainer_common.algorithm.overlong_filter",
}
"""Its key → ours, with the same value."""

SCHEDULES = ("constant", "cosine", "linear")
LOGGERS = ("tensorboard", "wandb", "mlflow", "swanlab", "trackio")
DTYPES = ("float32", "bfloat16", "auto")

LOSSES = "trainer_common.algorithm.policy_loss has ppo_clip, and those of astuner-algorithms"
ENGINE = "rollout.vllm.* sets up the engine, or names a server: rollout.vllm.url"
REFERENCE = "the reference is the model that the run began with"

DROPPED: Mapping[str, str] = {
    "model_init_kwargs": "model.dtype, and model.path",
    "trust_remote_code": "models and tokenizers that bring code are not loaded",
    "generation_batch_size": "data.train_batch_size counts tasks, each with rollout.num_repeat episodes",
    "steps_per_generation": "trainer_common.mini_batch_num cuts a step into several updates",
    "generation_kwargs": "training wants the distribution that was sampled: rollout.temperature, top_p and top_k",
    "chat_template_kwargs": "an agent passes chat_template_kwargs with its calls",
    "multi_objective_aggregation": "task_judge.reward.combine",
    "vllm_structured_outputs_regex": "rollout.constraints for JSON forms that the agent asks for",
    "log_completions_hub_repo": "every episode is stored; `astuner episodes` shows them",
    **dict.fromkeys(("sync_ref_model", "ref_model_mixup_alpha", "ref_model_sync_steps"), REFERENCE),
    **dict.fromkeys(("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"), LOSSES),
    "off_policy_mask_threshold": "trainer_common.algorithm.rollout_rs leaves out tokens or sequences of any advantage",
    "top_entropy_quantile": "every trained token counts; a loss of your own may weigh them",
    **dict.fromkeys(("vllm_server_base_url", "vllm_server_host", "vllm_server_port", "vllm_server_timeout"), ENGINE),
    **dict.fromkeys(("vllm_group_port", "vllm_model_impl", "vllm_enable_sleep_mode"), ENGINE),
    **dict.fromkeys(("vllm_gpu_memory_utilization", "vllm_tensor_parallel_size"), ENGINE),
    "output_dir": "experiment_dir names the run directory, with its checkpoints",
    "reward_funcs": "task_judge decides the reward: `judge_protocol: ./file.py:function` takes the task and the output",
    "reward_weights": "task_judge.judges weighs several judges",
    "reward_model_name_or_path": "task_judge decides the reward; a judge may ask any model",
    "dataset_config": "task_reader.huggingface_dat_repo.config_name",
    "num_iterations": "each row is trained once; trainer_common.mini_batch_num cuts a step into several updates",
    "warmup_ratio": "trainer_common.optim.lr_warmup_steps counts steps",
    "top_k": "0 means all tokens there, and -1 here: rollout.top_k",
    "min_p": "training wants the distribution that was sampled: rollout.temperature, top_p and top_k",
    "repetition_penalty": "training wants the distribution of the model itself",
    "resume_from_checkpoint": "`astuner run --resume`",
    "push_to_hub": "`astuner export` writes a model that other tools load and upload",
    "deepspeed": "the backbone 'verl' shards models over GPUs",
    "fsdp": "the backbone 'verl' shards models over GPUs",
}
"""What took the place of a key."""

IGNORED: Mapping[str, str] = {
    "vllm_mode": "rollout.name: auto chooses the engine",
    "gradient_checkpointing": "the trainer decides it by the memory that there is",
    "logging_steps": "every step is logged",
    "logging_first_step": "every step is logged",
    "log_completions": "every episode is stored; `astuner episodes` shows them",
    "num_completions_to_print": "every episode is stored; `astuner episodes` shows them",
    "remove_unused_columns": "columns without another use are in the metadata of a task",
    "do_train": "`astuner run` trains, `astuner eval` validates",
    "do_eval": "`astuner run` trains, `astuner eval` validates",
    "bf16": "model.dtype: auto takes what the machine computes in",
    "fp16": "model.dtype: auto takes what the machine computes in",
    "use_peft": "model.lora_rank above 0 trains an adapter",
}
"""Why a key is not needed."""


def _read_tasks(values: Keys) -> Keys:
    hub = {
        "dataset_path": values["dataset_name"],
        "training_split": values.get("dataset_train_split", "train"),
        "validation_split": values.get("dataset_test_split", "test") if values.get("eval_strategy", "no") != "no" else None,
        "columns": {"main_query": "prompt"},
    }
    if values.get("dataset_config"):
        hub["config_name"] = values["dataset_config"]
    return {"task_reader.type": "huggingface_dat_repo", "task_reader.huggingface_dat_repo": hub}


def _read_batch(values: Keys) -> Keys:
    """TRL counts answers: `per_device_train_batch_size` at a time, `gradient_accumulation_steps` times for a step."""
    answers = values.get("per_device_train_batch_size", 8) * values.get("gradient_accumulation_steps", 1)
    tasks, rest = divmod(answers, values.get("num_generations", 8))
    if rest or not tasks:
        raise ValueError("data.train_batch_size counts tasks, each with rollout.num_repeat episodes")
    return {"data.train_batch_size": tasks}


def _read_divergence(values: Keys) -> Keys:
    beta = values["beta"]
    return (
        {"trainer_common.use_kl_loss": True, "trainer_common.kl_loss_coef": beta}
        if beta
        else {"trainer_common.use_kl_loss": False}
    )


def _read_scaling(values: Keys) -> Keys:
    scale = values["scale_rewards"]
    if scale not in (True, False, "group", "none"):
        raise ValueError("trainer_common.algorithm.norm_adv_by_std_in_grpo divides by the group's deviation, or does not")
    return {"trainer_common.algorithm.norm_adv_by_std_in_grpo": scale in (True, "group")}


def _read_one_of(key: str, ours: str, known: Mapping[Any, Any]) -> Callable[[Keys], Keys]:
    def read(values: Keys) -> Keys:
        if values[key] not in known:
            raise ValueError(f"{ours} has {', '.join(sorted(map(str, dict.fromkeys(known.values()))))}")
        return {ours: known[values[key]]}

    return read


def _read_steps(values: Keys) -> Keys:
    return {} if values["max_steps"] in (None, -1) else {"trainer_common.total_training_steps": values["max_steps"]}


def _read_interval(key: str, strategy: str, ours: str) -> Callable[[Keys], Keys]:
    def read(values: Keys) -> Keys:
        steps = values.get(key)
        counts = values.get(strategy, "steps") == "steps" and isinstance(steps, int) and steps > 0
        return {ours: steps if counts else -1}

    return read


def _read_loggers(values: Keys) -> Keys:
    names = values["report_to"] if isinstance(values["report_to"], list) else [values["report_to"]]
    if names == ["none"]:
        return {"trainer_common.logger": ["console"]}
    if not set(names) <= set(LOGGERS):
        raise ValueError(f"trainer_common.logger has {', '.join(LOGGERS)}")
    return {"trainer_common.logger": ["console", *names]}


def _read_targets(values: Keys) -> Keys:
    return {"model.target_modules": values["lora_target_modules"]}


READERS: Mapping[str, Callable[[Keys], Keys]] = {
    "dataset_name": _read_tasks,
    "dataset_train_split": lambda values: {},
    "dataset_test_split": lambda values: {},
    "per_device_train_batch_size": _read_batch,
    "gradient_accumulation_steps": _read_batch,
    **trl_losses.READERS,
    "beta": _read_divergence,
    "scale_rewards": _read_scaling,
    "lr_scheduler_type": _read_one_of(
        "lr_scheduler_type", "trainer_common.optim.lr_scheduler_type", dict(zip(SCHEDULES, SCHEDULES, strict=True))
    ),
    "dtype": _read_one_of("dtype", "model.dtype", dict(zip(DTYPES, DTYPES, strict=True))),
    "torch_dtype": _read_one_of("torch_dtype", "model.dtype", dict(zip(DTYPES, DTYPES, strict=True))),
    "max_steps": _read_steps,
    "eval_steps": _read_interval("eval_steps", "eval_strategy", "trainer_common.test_freq"),
    "eval_strategy": _read_interval("eval_steps", "eval_strategy", "trainer_common.test_freq"),
    "save_steps": _read_interval("save_steps", "save_strategy", "trainer_common.save_freq"),
    "save_strategy": _read_interval("save_steps", "save_strategy", "trainer_common.save_freq"),
    "report_to": _read_loggers,
    "lora_target_modules": _read_targets,
}
"""Keys whose values are not the same here; each reader gets all values of the file."""


class TrlImporter:
    """Translates for `astuner config import`; a file of TRL is not run as it is, since it names no agent."""

    def claims(self, values: Keys) -> bool:
        """No file is read as it is."""
        return False

    def translate(self, values: Keys, *, file: Keys | None = None) -> Translation:
        """Translate TRL's flat keys of 1.x (`GRPOConfig`, `ModelConfig`, `ScriptArguments`)."""
        ours: Tree = {"backbone": "local"}
        answers = []
        for key, value in values.items():
            answers.append(self._answer(key, value, values, ours))
        return Translation(roots={"astuner": ours}, answers=tuple(answers))

    def _answer(self, key: str, value: Any, values: Keys, ours: Tree) -> Answer:
        if key in READERS:
            try:
                found = READERS[key](values)
            except trl_losses.NoEffectError as error:
                return Answer(key=key, kind="ignored", reason=str(error))
            except (ValueError, TypeError) as error:
                return Answer(key=key, kind="dropped", reason=str(error))
            for name, one in found.items():
                put(ours, name, one)
            if found:
                reason = trl_losses.REMARKS.get(key, "")
                return Answer(key=key, kind="translated", keys=tuple(f"astuner.{name}" for name in found), reason=reason)
            return Answer(key=key, kind="ignored", reason="it is part of another key here")
        if key in RENAMED:
            put(ours, RENAMED[key], value)
            return Answer(key=key, kind="translated", keys=(f"astuner.{RENAMED[key]}",))
        if key in IGNORED:
            return Answer(key=key, kind="ignored", reason=IGNORED[key])
        return Answer(key=key, kind="dropped", reason=DROPPED.get(key, "no key here does the same"))
