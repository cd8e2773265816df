"""From our keys to verl's configuration (`ppo_trainer.yaml` of 0.9.1). Imports neither verl nor torch.

Values that depend on the machine are `auto` in the native configuration of a plan; `astuner_verl.native_configuration`
sets them when the cluster is known.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from astuner.settings.config.alignment import Alignment, Constant, Row
from astuner.settings.config.structure_errors import Fault
from astuner.settings.config.trees import get
from astuner_verl.defaults import verl_defaults
from astuner_verl.imports import IMPORTS

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
REFUSED = Path(__file__).with_name("refused_keys.toml").read_text(encoding="utf-8")
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


def _calculate_entropy(coefficient: float, target: float | None) -> bool | str:
    return True if coefficient or target is not None else AUTO


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
        Row("model.chat_template", f"{MODEL}.custom_chat_template"),
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
        Row("trainer_common.algorithm.entropy_ctrl.coeff", f"{ACTOR}.entropy_coeff"),
        Row(
            ("trainer_common.algorithm.entropy_ctrl.coeff", "trainer_common.algorithm.entropy_ctrl.target"),
            f"{ACTOR}.calculate_entropy",
            value=_calculate_entropy,
        ),
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
    frozen={key: group["why"] for group in tomllib.loads(REFUSED)["refused"] for key in group["keys"]},
    imports=IMPORTS,
    check=_check,
)
