"""From our keys to verl's configuration (`ppo_trainer.yaml` of 0.9.1). Imports neither verl nor torch.

Values that depend on the machine are `auto` in the native configuration of a plan; `astuner_verl.native_configuration`
sets them when the cluster is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from astuner.settings.config.alignment import Alignment, Constant, Row
from astuner.settings.config.structure_errors import Fault
from astuner.settings.config.trees import get
from astuner_verl.defaults import verl_defaults
from astuner_verl.imports import IMPORTS, ONE_ENGINE

AUTO = "auto"
ACTOR, ROLLOUT, REF, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "ref", "model"))
MODE = "trainer.v1.trainer_mode"
SHARE = "astuner.share_prefixes"
"""Not verl's: whether rows of a pass share their common prefixes."""
SYNC, SEPARATE = "sync", "separate_async"
PRECISIONS = {"float32": "fp32", "bfloat16": "bf16"}
TOKENS_PER_PASS = 16384
"""verl's default for the tokens in one pass; a longer context gets its own pass."""

OURS = "astuner's loop decides it"
OTHER_ENGINES = ("megatron", "veomni", "mindspeed", "torchtitan", "automodel")
NO_PROFILER = "verl's own loop would start the profiler, and it does not run here"
SHARED = "trainer and engines share their machines"
CORE_PLAYS = "astuner reads the tasks, plays and judges the episodes, and computes the advantages"


def _check_temperature(temperature: float) -> float:
    if temperature == 0:
        raise ValueError("0 is greedy: there is no distribution to train. Set a temperature above 0, for example 1.0.")
    return temperature


def _choose_engine(name: str) -> str:
    engines = (AUTO, "vllm", "sglang", "transformers")
    if name not in engines:
        raise ValueError(f"verl has no engine {name!r}; it has {', '.join(engines[1:])}, and auto.")
    return name


def _require_whole(alpha: float) -> int:
    if alpha != int(alpha):
        raise ValueError(f"{alpha}: verl takes whole numbers; {int(alpha) or 1} for example.")
    return int(alpha)


def _precision(dtype: str) -> str:
    return AUTO if dtype == AUTO else PRECISIONS[dtype]


def _mini_batch(batch: int, parts: int) -> int:
    return max(1, batch // parts)


def _tokens_per_pass(context: int) -> int:
    return max(TOKENS_PER_PASS, context)


def _kl_in_loss(wanted: bool, coefficient: float) -> bool:
    return wanted and coefficient > 0


def _defaults() -> Mapping[str, Any]:
    """Return verl's defaults and our own key, with the workers of a node left open: one per GPU, at most 8; one without a GPU."""
    found = verl_defaults()
    return {**found, "trainer": {**found["trainer"], "n_gpus_per_node": AUTO}, "astuner": {"share_prefixes": AUTO}}


def find_indivisible(native: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the native keys that do not fit the known number of workers, with the reasons."""
    trained, trainer = native["actor_rollout_ref"], native["trainer"]
    workers, nodes = trainer["n_gpus_per_node"], trainer["nnodes"]
    if workers < 1:
        return [("trainer.n_gpus_per_node", f"{workers}: verl needs one worker at least; on a machine without a GPU, 1")]
    found = []
    spread = trained["rollout"]["tensor_model_parallel_size"]
    if (workers * nodes) % spread:
        message = f"{spread} does not divide the {workers * nodes} GPUs of the run (nnodes x n_gpus_per_node)"
        found.append((f"{ROLLOUT}.tensor_model_parallel_size", message))
    elif workers % spread and spread % workers:
        message = f"{spread} does not divide the {workers} GPUs of a node, so an engine would lie across nodes"
        found.append((f"{ROLLOUT}.tensor_model_parallel_size", message))
    parallel = trained["actor"]["fsdp_config"]["ulysses_sequence_parallel_size"]
    if (workers * nodes) % parallel:
        message = f"{parallel} does not divide the {workers * nodes} GPUs of the run (nnodes x n_gpus_per_node)"
        found.append((f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size", message))
    return found


def _check(native: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Return settings with which verl could not start, as far as can be checked without it."""
    trained = native["actor_rollout_ref"]
    actor, rollout, ref, trainer = trained["actor"], trained["rollout"], trained["ref"], native["trainer"]
    faults: list[Fault] = []

    def fault(path: str, message: str) -> None:
        faults.append(Fault(path=tuple(path.split(".")), message=message))

    for path, section in ((f"{ACTOR}.strategy", actor), (f"{ACTOR}.fsdp_config.strategy", actor["fsdp_config"])):
        if section["strategy"] not in ("fsdp", "fsdp2"):
            fault(path, f"{section['strategy']!r} is not supported; choose fsdp2 or fsdp")
    if actor["use_dynamic_bsz"] is False:
        wanted = {
            f"{ACTOR}.ppo_micro_batch_size_per_gpu": actor["ppo_micro_batch_size_per_gpu"],
            f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": rollout["log_prob_micro_batch_size_per_gpu"],
        }
        for path, size in wanted.items():
            if size is None:
                fault(path, f"missing: without {ACTOR}.use_dynamic_bsz verl wants the rows of one pass; set it to 1 or more")
            elif size != 1:
                fault(path, "an episode gives any number of rows, which a fixed size need not divide: set 1, or use_dynamic_bsz")
    if actor["use_dynamic_bsz"] != rollout["log_prob_use_dynamic_bsz"]:
        fault(f"{ROLLOUT}.log_prob_use_dynamic_bsz", f"has to be the same as {ACTOR}.use_dynamic_bsz")
    counts = {
        "trainer.nnodes": trainer["nnodes"],
        "trainer.n_gpus_per_node": trainer["n_gpus_per_node"],
        f"{ROLLOUT}.tensor_model_parallel_size": rollout["tensor_model_parallel_size"],
        f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size": actor["fsdp_config"]["ulysses_sequence_parallel_size"],
    }
    odd = [path for path, value in counts.items() if value != AUTO and (type(value) is not int or value < 0)]
    for path in odd:
        fault(path, f"{counts[path]!r}: a whole number from 1 is wanted")
    if not odd and trainer["n_gpus_per_node"] != AUTO:
        for path, message in find_indivisible(native):
            fault(path, message)
    mode = trainer["v1"]["trainer_mode"]
    if mode not in (SYNC, SEPARATE):
        fault(
            MODE,
            f"{mode!r} is not supported: verl's replay buffer would decide which episodes make a step, so that neither groups "
            f"nor --resume would be exact. {SYNC!r} plays a step before it is trained, {SEPARATE!r} plays the next one meanwhile",
        )
    if get(native, SHARE) not in (AUTO, True, False):
        fault(SHARE, f"{get(native, SHARE)!r}: true, false or auto is wanted")
    if ref["fsdp_config"]["forward_only"] is not True:
        fault(f"{REF}.fsdp_config.forward_only", "the reference is never trained")
    return tuple(faults)


ALIGNMENT = Alignment(
    root="verl",
    rows=(
        Row("model.path", f"{MODEL}.path"),
        Row(
            "model.dtype",
            (f"{ACTOR}.fsdp_config.mixed_precision.param_dtype", f"{REF}.fsdp_config.mixed_precision.param_dtype"),
            value=_precision,
        ),
        Row("model.lora_rank", f"{MODEL}.lora_rank"),
        Row("model.lora_alpha", f"{MODEL}.lora_alpha", value=_require_whole),
        Row("model.target_modules", f"{MODEL}.target_modules"),
        Row("data.max_prompt_length", "data.max_prompt_length"),
        Row("data.max_response_length", "data.max_response_length"),
        Row("data.train_batch_size", "data.train_batch_size"),
        Row(("data.train_batch_size", "trainer_common.mini_batch_num"), f"{ACTOR}.ppo_mini_batch_size", value=_mini_batch),
        Row("rollout.name", f"{ROLLOUT}.name", value=_choose_engine),
        Row("rollout.temperature", f"{ROLLOUT}.temperature", value=_check_temperature),
        Row("rollout.top_p", f"{ROLLOUT}.top_p"),
        Row("rollout.top_k", f"{ROLLOUT}.top_k"),
        Row("rollout.num_repeat", f"{ROLLOUT}.n"),
        Row("rollout.tensor_model_parallel_size", f"{ROLLOUT}.tensor_model_parallel_size"),
        Row("rollout.max_num_seqs", f"{ROLLOUT}.max_num_seqs"),
        Row("rollout.max_model_len", f"{ROLLOUT}.max_model_len"),
        Row(
            "rollout.max_model_len",
            (f"{ACTOR}.ppo_max_token_len_per_gpu", f"{ROLLOUT}.log_prob_max_token_len_per_gpu"),
            value=_tokens_per_pass,
        ),
        Row("rollout.val_kwargs.temperature", f"{ROLLOUT}.val_kwargs.temperature"),
        Row("rollout.val_kwargs.top_p", f"{ROLLOUT}.val_kwargs.top_p"),
        Row("rollout.val_kwargs.top_k", f"{ROLLOUT}.val_kwargs.top_k"),
        Row("rollout.val_kwargs.do_sample", f"{ROLLOUT}.val_kwargs.do_sample"),
        Row("trainer_common.val_pass_n", f"{ROLLOUT}.val_kwargs.n"),
        Row("trainer_common.nnodes", "trainer.nnodes"),
        Row("trainer_common.n_gpus_per_node", "trainer.n_gpus_per_node", only_if_set=True),
        Row("trainer_common.optim.lr", f"{ACTOR}.optim.lr"),
        Row("trainer_common.optim.weight_decay", f"{ACTOR}.optim.weight_decay"),
        Row("trainer_common.optim.betas", f"{ACTOR}.optim.betas"),
        Row("trainer_common.grad_clip", (f"{ACTOR}.grad_clip", f"{ACTOR}.optim.clip_grad")),
        Row("trainer_common.clip_ratio_low", f"{ACTOR}.clip_ratio_low"),
        Row("trainer_common.clip_ratio_high", f"{ACTOR}.clip_ratio_high"),
        Row("trainer_common.clip_ratio_c", f"{ACTOR}.clip_ratio_c"),
        Row("trainer_common.loss_agg_mode", f"{ACTOR}.loss_agg_mode", value=lambda mode: mode or AUTO),
        Row(("trainer_common.use_kl_loss", "trainer_common.kl_loss_coef"), f"{ACTOR}.use_kl_loss", value=_kl_in_loss),
        Row("trainer_common.kl_loss_coef", f"{ACTOR}.kl_loss_coef"),
        Row("trainer_common.kl_loss_type", f"{ACTOR}.kl_loss_type"),
        Row("trainer_common.algorithm.use_kl_in_reward", "algorithm.use_kl_in_reward"),
        Row("trainer_common.algorithm.kl_penalty", "algorithm.kl_penalty"),
        Row("trainer_common.algorithm.kl_ctrl.kl_coef", "algorithm.kl_ctrl.kl_coef"),
        Row(
            "trainer_common.fsdp_config.param_offload", (f"{ACTOR}.fsdp_config.param_offload", f"{REF}.fsdp_config.param_offload")
        ),
        Row("trainer_common.fsdp_config.optimizer_offload", f"{ACTOR}.fsdp_config.optimizer_offload"),
        Row(
            "trainer_common.ulysses_sequence_parallel_size",
            (f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size", f"{REF}.fsdp_config.ulysses_sequence_parallel_size"),
        ),
        Row("seed", (f"{ACTOR}.fsdp_config.seed", f"{ROLLOUT}.seed")),
        Row("project_name", "trainer.project_name"),
        Row("experiment_name", "trainer.experiment_name"),
    ),
    constants=(
        Constant("algorithm.adv_estimator", "grpo", "advantages are computed once, in core"),
        Constant(MODE, SYNC, OURS),
        Constant("trainer.logger", [], OURS),
        Constant("trainer.val_before_train", False, OURS),
        Constant("trainer.test_freq", -1, OURS),
        Constant("trainer.save_freq", -1, OURS),
        Constant("trainer.resume_mode", "disable", OURS),
        Constant("trainer.device", AUTO, "what the cluster computes on"),
        Constant("reward.num_workers", 0, CORE_PLAYS),
        Constant(f"{ACTOR}.strategy", "fsdp2", "the one that computes on a CPU too"),
        Constant(f"{ACTOR}.fsdp_config.strategy", "fsdp2", "the one that computes on a CPU too"),
        Constant(f"{REF}.fsdp_config.strategy", "fsdp2", "the one that computes on a CPU too"),
        Constant(f"{ACTOR}.use_dynamic_bsz", AUTO, "rows share passes, but with padding on a GPU each is one"),
        Constant(f"{ROLLOUT}.log_prob_use_dynamic_bsz", AUTO, "as the actor"),
        Constant(f"{ACTOR}.calculate_entropy", AUTO, "without a GPU, where its memory costs little"),
        Constant(f"{ACTOR}.use_torch_compile", AUTO, "with a GPU"),
        Constant(f"{ACTOR}.fsdp_config.use_torch_compile", AUTO, "with a GPU"),
        Constant(f"{REF}.fsdp_config.use_torch_compile", AUTO, "with a GPU"),
        Constant(f"{ACTOR}.checkpoint.save_contents", AUTO, "a model that other tools load, and what training needs"),
        Constant(f"{ACTOR}.checkpoint.load_contents", ["model", "optimizer", "extra"], "what training needs"),
        Constant(f"{MODEL}.use_remove_padding", AUTO, "where flash-attention is installed"),
        Constant(f"{MODEL}.override_config.attn_implementation", AUTO, "flash_attention_2 where it is installed, else sdpa"),
        Constant(f"{MODEL}.lora.merge", AUTO, "adapters travel alone where the engine can apply them"),
        Constant(SHARE, AUTO, "without a GPU, if the numbers agree with verl's own"),
        Constant(f"{ROLLOUT}.dtype", AUTO, "as the trainer computes"),
        Constant(f"{ROLLOUT}.calculate_log_probs", True, "training is held against what was sampled"),
        Constant(f"{ROLLOUT}.load_format", AUTO, "servers with an accelerator get their weights from the trainer"),
    ),
    defaults=_defaults,
    frozen={
        **{f"actor_rollout_ref.*.{engine}.*": ONE_ENGINE for engine in OTHER_ENGINES},
        "custom_reward_function.*": CORE_PLAYS,
        "reward_model.*": CORE_PLAYS,
        "sandbox_fusion.*": CORE_PLAYS,
        "skip.*": CORE_PLAYS,
        "global_profiler.*": NO_PROFILER,
        "actor_rollout_ref.*.profiler.*": NO_PROFILER,
        "trainer.log_val_generations": "the run store keeps every episode",
        "trainer.checkpoint_callback_class": OURS,
        "trainer.esi_redundant_time": OURS,
        "trainer.del_local_ckpt_after_load": OURS,
        "trainer.project_name": "project_name decides it",
        "trainer.experiment_name": "experiment_name decides it",
        f"{MODEL}.path": "model.path decides it",
        f"{MODEL}.tokenizer_path": "the gateway renders with the tokenizer of model.path",
        f"{MODEL}.custom_chat_template": "the gateway renders with the template of model.path",
        f"{MODEL}.lora_adapter_path": "adapters are new, or come from a checkpoint",
        f"{ACTOR}.grad_clip": f"{ACTOR}.optim.clip_grad is what clips",
        f"{ROLLOUT}.trace.*": "the run store keeps every call",
        f"{ROLLOUT}.over_sample_rate": CORE_PLAYS,
        f"{ROLLOUT}.checkpoint_engine.backend": SHARED,
        f"{ROLLOUT}.nnodes": SHARED,
        f"{ROLLOUT}.n_gpus_per_node": SHARED,
        "algorithm.*": CORE_PLAYS,
        "reward.*": CORE_PLAYS,
        "critic.*": "there is no critic: advantages are relative to the group",
        "distillation.*": CORE_PLAYS,
        "data.*": CORE_PLAYS,
        "trainer.v1.[!t]*": CORE_PLAYS,
        "trainer.use_v1": "only verl's V1 trainer is driven",
        "trainer.*_freq": OURS,
        "trainer.val_*": OURS,
        "trainer.total_*": OURS,
        "trainer.resume_*": OURS,
        "trainer.logger": "trainer_common.logger decides it",
        "trainer.default_*": "checkpoints lie in the run directory",
        "trainer.max_*": "trainer_common.max_checkpoints_to_keep decides it",
        "trainer.balance_batch": "rows are always shared out evenly",
        "trainer.critic_warmup": "there is no critic",
        "trainer.device": "the cluster decides it",
        "transfer_queue.*": "rows go straight to the workers",
        "ray_kwargs.*": "--with-ray and RAY_ADDRESS decide which cluster is used",
        f"{ROLLOUT}.agent.*": CORE_PLAYS,
        f"{ROLLOUT}.multi_turn.*": CORE_PLAYS,
        f"{ROLLOUT}.n": "rollout.num_repeat decides it",
        f"{ROLLOUT}.val_kwargs.*": "rollout.val_kwargs decides it",
        f"{ROLLOUT}.temperature": "rollout.temperature decides it, for sampler and trainer",
        f"{ROLLOUT}.top_p": "rollout.top_p decides it",
        f"{ROLLOUT}.top_k": "rollout.top_k decides it",
        f"{ROLLOUT}.do_sample": "rollout.temperature decides it",
        f"{ROLLOUT}.max_model_len": "rollout.max_model_len decides it, for engine and gateway",
        f"{ROLLOUT}.full_determinism": "verl's driver would have to set it up; seeds are per request here",
        f"{MODEL}.lora.*": "model.lora_rank, lora_alpha and target_modules decide it",
        f"{ACTOR}.calculate_sum_pi_squared": "nothing reads it",
        f"{ACTOR}.tau_*": "they belong to losses that are not used",
        f"{ACTOR}.data_loader_seed": "trainer_common.mini_batch_num cuts the batch by groups",
        f"{ACTOR}.fsdp_config.strategy": f"{ACTOR}.strategy decides it",
        f"{REF}.fsdp_config.strategy": f"{ACTOR}.strategy decides it",
        "trainer.rollout_data_dir": "the run store keeps every episode",
        "trainer.validation_data_dir": "the run store keeps every episode",
        f"{ACTOR}.optim.min_lr_ratio": "trainer_common.optim decides it",
        f"{ACTOR}.optim.num_cycles": "trainer_common.optim decides it",
        f"{ACTOR}.optim.zero_indexed_step": "trainer_common.optim decides it",
        f"{ACTOR}.optim.warmup_style": "trainer_common.optim decides it",
        f"{ROLLOUT}.calculate_log_probs": "training is held against what was sampled",
        f"{ROLLOUT}.logprobs_mode": "training wants the log-probabilities of the distribution that was sampled",
        f"{ACTOR}.ppo_mini_batch_size": "trainer_common.mini_batch_num decides it",
        f"{ACTOR}.ppo_epochs": "each row is trained once",
        f"{ACTOR}.shuffle": "trainer_common.mini_batch_num cuts the batch by groups",
        f"{ACTOR}.policy_loss.*": "the loss is that of every backbone: PPO's clipped one, whatever rows an episode is cut into",
        f"{ACTOR}.clip_ratio": "trainer_common.clip_ratio_low and clip_ratio_high decide it",
        f"{ACTOR}.loss_scale_factor": "data.max_response_length is what seq-mean-token-sum-norm divides by",
        f"{ACTOR}.optim.lr_*": "trainer_common.optim decides it",
        f"{ACTOR}.optim.total_training_steps": OURS,
        f"{ACTOR}.checkpoint.*": "a checkpoint is a model that other tools load, and what training needs",
    },
    imports=IMPORTS,
    check=_check,
)
