"""Symptoms of a run that has signal: the weights move too little, too much, or without effect on the reward."""

from __future__ import annotations

import math
from statistics import fmean, median

from astuner_tools.diagnosis.curves import Ends, compare_ends, is_solved, measure_room, take_late
from astuner_tools.diagnosis.findings import Evidence
from astuner_tools.diagnosis.groups import name_ends
from astuner_tools.diagnosis.outcome_checks import has_risen
from astuner_tools.diagnosis.run_record import RunRecord
from astuner_tools.diagnosis.signal_checks import Limits

SMALL_CHANGE = 0.15
"""Share of the room up to which a change that is within its error counts as none."""


def find_small_steps(record: RunRecord, limits: Limits) -> Evidence | None:
    """The reward is flat, and the weights hardly move."""
    flat, kl, relative = _find_flat(record, limits), take_late(record, "kl/mean"), take_late(record, "update/relative")
    if flat is None:
        return None
    still = kl is not None and kl < limits["kl"]
    if not still and (relative is None or relative >= limits["relative"]):
        return None
    if relative is not None and relative >= limits["enough"]:
        return None  # the weights move; something else holds the policy
    rate = float(record.get("trainer_common.optim.lr", 0.0))
    factor = 10.0 if not relative else 10.0 ** max(1, math.floor(math.log10(limits["enough"] / relative)))
    return Evidence(
        numbers={
            **_name_ends(flat),
            "lr": rate,
            "kl": kl if kl is not None else float("nan"),
            "update": _describe_update(relative),
        },
        episodes=name_ends(record.late),
        value=f"{rate * factor:.1e}",
    )


def find_strong_divergence(record: RunRecord, limits: Limits) -> Evidence | None:
    """The reward is flat, and the divergence from the reference outweighs the advantages."""
    flat = _find_flat(record, limits)
    in_loss = float(record.get("trainer_common.kl_loss_coef", 0.0)) if record.get("trainer_common.use_kl_loss", True) else 0.0
    in_reward = float(record.get("trainer_common.algorithm.kl_ctrl.kl_coef", 0.0))
    in_reward = in_reward if record.get("trainer_common.algorithm.use_kl_in_reward", False) else 0.0
    coefficient = max(in_loss, in_reward)
    kl = take_late(record, "kl/mean")
    if flat is None or coefficient < limits["coefficient"] or kl is None or kl > limits["kl"]:
        return None
    key = "trainer_common.kl_loss_coef" if in_loss >= in_reward else "trainer_common.algorithm.kl_ctrl.kl_coef"
    return Evidence(
        numbers={**_name_ends(flat), "coefficient": coefficient, "kl": kl, "key": key},
        episodes=name_ends(record.late),
        key=key,
        value="0.002",
    )


def find_large_steps(record: RunRecord, limits: Limits) -> Evidence | None:
    """The reward falls, or gradients are not finite, while the policy leaves its reference in large steps."""
    fall = _measure_fall(record, int(limits["steps"]))
    kl = max((value for _, value in record.read("kl/mean")), default=0.0)
    relative = max((value for _, value in record.read("update/relative")), default=None)
    broken = sum(value for _, value in record.read("signal/updates_not_finite"))
    far = kl >= limits["kl"] or (relative is not None and relative >= limits["relative"])
    if not broken and not (far and fall is not None and not is_solved(record)):
        return None
    rate = float(record.get("trainer_common.optim.lr", 0.0))
    return Evidence(
        numbers={
            "first": fall[0] if fall else record.read("reward/mean")[0][1],
            "last": fall[1] if fall else record.read("reward/mean")[-1][1],
            "kl": kl,
            "drift": f" by up to {kl:.2g} nats a token" if kl >= limits["kl"] else "",
            "lr": rate,
            "update": _describe_update(relative),
            "broken": f"; {broken:.0f} updates had a gradient that is not finite" if broken else "",
        },
        episodes=name_ends(record.late),
        value=f"{rate / 10:.1e}",
    )


def find_falling_reward(record: RunRecord, limits: Limits) -> Evidence | None:
    """The training reward falls."""
    ends = compare_ends(record, "reward/mean", least_steps=int(limits["steps"]))
    if ends is None or is_solved(record) or not ends.fell(limits["fall"] * measure_room(record, 0.0)):
        return None
    rate = float(record.get("trainer_common.optim.lr", 0.0))
    return Evidence(
        numbers={**_name_ends(ends), **_name_context(record)}, episodes=name_ends(record.late), value=f"{rate / 3:.1e}"
    )


def find_flat_reward(record: RunRecord, limits: Limits) -> Evidence | None:
    """There is signal, the weights move, and the reward does not."""
    flat = _find_flat(record, limits)
    if flat is None:
        return None
    return Evidence(
        numbers={**_name_ends(flat), **_name_context(record)},
        episodes=name_ends(record.late),
        value=str(2 * int(record.get("rollout.num_repeat", 4))),
    )


def _measure_fall(record: RunRecord, least_steps: int) -> tuple[float, float] | None:
    """Return the highest reward of a step and that of the last steps, if these have lost half of it by more than chance."""
    curve, spreads, counts = (record.read(name) for name in ("reward/mean", "reward/std", "signal/episodes"))
    if len(curve) < least_steps or not spreads or not counts:
        return None
    window = max(1, len(curve) // 3)
    step, peak = max(curve[:-window], key=lambda point: point[1])
    last = fmean(value for _, value in curve[-window:])
    error = dict(spreads).get(step, 0.0) / math.sqrt(max(1.0, dict(counts).get(step, 1.0)))
    return (peak, last) if last < peak / 2 and peak - last > 2 * error else None


def _find_flat(record: RunRecord, limits: Limits) -> Ends | None:
    """Return the ends of a reward that has had time and signal, and has not moved, in training or validation."""
    ends = compare_ends(record, "reward/mean", least_steps=int(limits["steps"]))
    live = [value for _, value in record.read("signal/tokens_nonzero_advantage")]
    if ends is None or is_solved(record) or has_risen(record) or not live or not median(live[-5:]):
        return None
    room = measure_room(record, ends.first)
    small = abs(ends.change) < limits["share"] * room
    within = abs(ends.change) < 2 * ends.error and abs(ends.change) < SMALL_CHANGE * room
    return ends if small or within else None


def _name_ends(ends: Ends) -> dict[str, float | int | str]:
    return {"first": ends.first, "last": ends.last, "steps": ends.steps}


def _name_context(record: RunRecord) -> dict[str, float | int | str]:
    """Return what else is measured, as text: an unmeasured number is left out."""
    names = {
        "entropy/mean": "entropy",
        "kl/mean": "KL",
        "update/relative": "relative update",
        "grad/norm": "gradient norm",
    }
    found = [f"{word} {value:.3g}" for name, word in names.items() if (value := take_late(record, name)) is not None]
    trainable, live = take_late(record, "signal/tokens_trainable"), take_late(record, "signal/tokens_nonzero_advantage")
    found += [f"{live / trainable:.0%} of the tokens have signal"] if trainable and live is not None else []
    return {"context": ", ".join(found)}


def _describe_update(relative: float | None) -> str:
    return "" if relative is None else f", a step changes the weights by {relative:.1g} of their norm"
