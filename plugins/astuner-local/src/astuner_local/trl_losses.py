"""TRL's keys of the loss in ours; part of the importer `trl`. Written from `GRPOTrainer._compute_loss` of TRL 1.16."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Keys = Mapping[str, Any]

ALGORITHM = "trainer_common.algorithm"
CLIPPED = "ppo_clip"
AGGREGATIONS: Mapping[str, str] = {
    "grpo": "seq-mean-token-mean",
    "dr_grpo": "seq-mean-token-sum-norm",
    "dapo": "token-mean",
    "bnpo": "token-mean",
    "luspo": "seq-mean-token-sum",
    "cispo": "token-mean",
    "sapo": "seq-mean-token-mean",
}
"""Its `loss_type` → our `loss_agg_mode`."""
OWN_LOSSES = ("cispo", "sapo")
"""Those that are a loss of their own, and not the clipped one."""
MOST_RATIO = 1e9
"""Beyond every ratio, since the logarithm of one is held within ±20: a bound that TRL does not have."""

REMARKS: Mapping[str, str] = {
    "entropy_coef": "the entropy is averaged over tokens there, and added up as the losses are here",
    "use_adaptive_entropy": "adapted after each optimizer step there, and not yet applied in the first one",
    "use_vllm": "TRL corrects for vLLM's probabilities; rollout.name: auto chooses the engine",
}
"""How the translation of a key differs."""


class NoEffectError(ValueError):
    """A key without effect in this file."""


def _choose_loss(values: Keys) -> str:
    """Return our loss; raises `ValueError` if none does the same."""
    kind, level = values.get("loss_type", "dapo"), values.get("importance_sampling_level", "token")
    if kind not in AGGREGATIONS:
        raise ValueError(f"of its losses there are {', '.join(sorted(AGGREGATIONS))}")
    if level not in ("token", "sequence"):
        raise ValueError("trainer_common.algorithm.policy_loss has ratios of tokens, and those of sequences with gspo")
    if kind not in OWN_LOSSES:
        return "gspo" if level == "sequence" else CLIPPED
    if level == "sequence":
        raise ValueError(f"the loss {kind} takes the ratio of each token")
    if kind == "cispo" and _get_high(values) < 1:
        raise ValueError("epsilon_high, else epsilon, is the largest weight there; here one of 1 at least is the bound")
    return str(kind)


def _find_loss(values: Keys) -> str:
    """Return our loss; that of a file without these keys if none does the same, which their own answers report."""
    try:
        return _choose_loss(values)
    except (ValueError, TypeError):
        return CLIPPED


def _get_high(values: Keys) -> Any:
    high = values.get("epsilon_high")
    return values.get("epsilon", 0.2) if high is None else high


def _read_bounds(values: Keys) -> Keys:
    loss, low, high = _find_loss(values), values.get("epsilon", 0.2), _get_high(values)
    match loss:
        case "cispo":
            return {f"{ALGORITHM}.cispo.clip_ratio_high": high - 1}
        case "sapo":
            raise NoEffectError("the loss sapo has no bounds")
        case "gspo":
            return {f"{ALGORITHM}.gspo.clip_ratio_low": low, f"{ALGORITHM}.gspo.clip_ratio_high": high}
    return {"trainer_common.clip_ratio_low": low, "trainer_common.clip_ratio_high": high}


def _read_largest_ratio(values: Keys) -> Keys:
    loss, delta = _find_loss(values), values["delta"]
    if loss in OWN_LOSSES:
        raise NoEffectError(f"the loss {loss} has no such bound")
    if loss != CLIPPED:
        if delta is None:
            return {}
        raise ValueError(f"the loss {loss} has no such bound")
    if delta is not None and delta <= 1 + _get_high(values):
        raise ValueError("trainer_common.clip_ratio_c bounds negative advantages, beyond trainer_common.clip_ratio_high")
    return {"trainer_common.clip_ratio_c": MOST_RATIO if delta is None else delta}


def _read_loss(values: Keys) -> Keys:
    loss, kind = _choose_loss(values), values.get("loss_type", "dapo")
    if kind == "bnpo" and values.get("gradient_accumulation_steps", 1) != 1:
        raise ValueError("each of the accumulated batches has its own mean there; trainer_common.loss_agg_mode: token-mean")
    found = {"trainer_common.loss_agg_mode": AGGREGATIONS[kind]}
    if kind == "dr_grpo":
        found |= {"data.max_response_length": values.get("max_completion_length", 512)}
    if loss == CLIPPED:
        return found
    return {**found, f"{ALGORITHM}.policy_loss": loss, **({} if loss == "sapo" else _read_bounds(values))}


def _read_level(values: Keys) -> Keys:
    loss = _choose_loss(values)
    return {f"{ALGORITHM}.policy_loss": loss, **_read_bounds(values)} if loss == "gspo" else {}


def _read_temperature(key: str, ours: str) -> Callable[[Keys], Keys]:
    def read(values: Keys) -> Keys:
        if _find_loss(values) != "sapo":
            raise NoEffectError("it is an option of the loss sapo")
        return {f"{ALGORITHM}.sapo.{ours}": values[key]}

    return read


def _read_correction(values: Keys) -> Keys:
    """TRL weighs the policy gradient by π_old/μ, with the bounds of tokens or of whole answers."""
    if not values.get("use_vllm", False):
        raise NoEffectError("use_vllm is off")
    if not values.get("vllm_importance_sampling_correction", True):
        raise NoEffectError("vllm_importance_sampling_correction is off")
    unit, _, how = str(values.get("vllm_importance_sampling_mode", "sequence_mask")).partition("_")
    high, low = values.get("vllm_importance_sampling_clip_max", 3.0), values.get("vllm_importance_sampling_clip_min")
    if values.get("vllm_importance_sampling_cap") is not None:
        high = values["vllm_importance_sampling_cap"]
    if unit not in ("token", "sequence") or how not in ("truncate", "mask"):
        raise ValueError(f"{ALGORITHM}.rollout_is has token, sequence")
    if unit == "token" and _find_loss(values) == "gspo":
        raise ValueError("with ratios of sequences, tokens get the mean weight of theirs there, and their own here")
    if how == "truncate" and (low is not None or high is None):
        raise ValueError(f"{ALGORITHM}.rollout_is_threshold truncates from above alone")
    found = {
        f"{ALGORITHM}.rollout_is": unit,
        f"{ALGORITHM}.rollout_is_threshold": MOST_RATIO if high is None else high,
    }
    return found if how == "truncate" else {**found, f"{ALGORITHM}.rollout_is_lower": 1 / MOST_RATIO if low is None else low}


def _read_entropy(values: Keys) -> Keys:
    if not values.get("use_adaptive_entropy", False):
        raise NoEffectError("use_adaptive_entropy is off")
    if values.get("entropy_coef_min", 0.0) != 0:
        raise ValueError(f"the smallest {ALGORITHM}.entropy_ctrl.coeff is 0")
    return {
        f"{ALGORITHM}.entropy_ctrl.target": values.get("entropy_target", 0.2),
        f"{ALGORITHM}.entropy_ctrl.delta": values.get("entropy_coef_delta", 0.005),
        f"{ALGORITHM}.entropy_ctrl.most": values.get("entropy_coef_max", 1.0),
    }


READERS: Mapping[str, Callable[[Keys], Keys]] = {
    "loss_type": _read_loss,
    "importance_sampling_level": _read_level,
    "epsilon": _read_bounds,
    "epsilon_high": _read_bounds,
    "delta": _read_largest_ratio,
    "sapo_temperature_pos": _read_temperature("sapo_temperature_pos", "tau_positive"),
    "sapo_temperature_neg": _read_temperature("sapo_temperature_neg", "tau_negative"),
    "entropy_coef": lambda values: {f"{ALGORITHM}.entropy_ctrl.coeff": values["entropy_coef"]},
    **dict.fromkeys(("use_adaptive_entropy", "entropy_target", "entropy_coef_delta"), _read_entropy),
    **dict.fromkeys(("entropy_coef_max", "entropy_coef_min"), _read_entropy),
    **dict.fromkeys(("use_vllm", "vllm_importance_sampling_correction", "vllm_importance_sampling_mode"), _read_correction),
    **dict.fromkeys(("vllm_importance_sampling_clip_max", "vllm_importance_sampling_clip_min"), _read_correction),
    "vllm_importance_sampling_cap": _read_correction,
}
"""Each gets all values of the file, and returns our keys."""
