"""Symptoms in what the reward means: validation that falls, and a reward that is not what is wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from attrs import frozen

from astuner.contract.schema import Episode, Verdict
from astuner_tools.diagnosis.curves import Ends, compare_ends, find_best_reward, measure_room
from astuner_tools.diagnosis.findings import Evidence
from astuner_tools.diagnosis.groups import group_siblings, list_judged, name_ends
from astuner_tools.diagnosis.run_record import RunRecord
from astuner_tools.diagnosis.signal_checks import Limits

VALIDATION = "val/reward/mean"
NOT_COMPONENTS = ("mean", "std", "count", "mean_kept")


@frozen(kw_only=True)
class Validations:
    """The rewards of a run's validations."""

    first: float
    last: float
    best: float
    best_step: int
    count: int
    fell: bool
    """Whether the last one is below the first by more than chance."""
    episodes: int
    """Of the last one; 0 if not recorded."""


def find_overfitting(record: RunRecord, limits: Limits) -> Evidence | None:
    """The training reward rises, and validation falls, or stays where it was."""
    found, training = _read_validations(record, limits), compare_ends(record, "reward/mean", least_steps=int(limits["steps"]))
    if found is None or training is None or not training.rose(limits["rise"] * measure_room(record, training.first)):
        return None
    room = find_best_reward(record) - found.last
    behind = found.last - found.first < limits["follows"] * training.change and training.last - found.last > limits["gap"]
    falls = found.fell and found.last < training.last
    if not falls and not (behind and room > limits["gap"]):
        return None
    return _describe_validations(record, found, training)


def find_falling_validation(record: RunRecord, limits: Limits) -> Evidence | None:
    """Validation ends below its start."""
    found = _read_validations(record, limits)
    return None if found is None or not found.fell else _describe_validations(record, found, compare_ends(record, "reward/mean"))


def find_bought_reward(record: RunRecord, limits: Limits) -> Evidence | None:
    """The reward rises while success, or a part of the reward, falls."""
    reward = compare_ends(record, "reward/mean", least_steps=int(limits["steps"]))
    if reward is None or not reward.rose(limits["rise"] * measure_room(record, reward.first)):
        return None
    for name in ("success/rate", *_list_components(record)):
        ends = compare_ends(record, name, least_steps=int(limits["steps"]))
        scale = 1.0 if name == "success/rate" else abs(ends.first) if ends else 1.0
        if ends is not None and ends.fell(limits["fall"] * scale):
            return Evidence(
                numbers={"first": reward.first, "last": reward.last, "part": name, "before": ends.first, "after": ends.last},
                episodes=_find_bought(record, name),
            )
    return None


def find_unrelated_reward(record: RunRecord, limits: Limits) -> Evidence | None:
    """Among siblings, those that succeed get no more reward than those that do not."""
    won, lost = list[float](), list[float]()
    examples: list[str] = []
    for siblings in group_siblings(list_judged(record.episodes)):
        solved = [one for one in siblings if one.is_success]
        failed = [one for one in siblings if one.is_success is False]
        if solved and failed:
            won += [one.reward for one in solved if one.reward is not None]
            lost += [one.reward for one in failed if one.reward is not None]
            worst, best = min(solved, key=_get_reward), max(failed, key=_get_reward)
            examples = examples or ([worst.id, best.id] if _get_reward(worst) < _get_reward(best) else [])
    if min(len(won), len(lost)) < limits["episodes"]:
        return None
    spread = stdev([*won, *lost])
    difference = fmean(won) - fmean(lost)
    if not spread or difference > limits["spreads"] * spread:
        return None
    return Evidence(
        numbers={"won": fmean(won), "lost": fmean(lost), "successes": len(won), "failures": len(lost)},
        episodes=examples or name_ends(record.late),
    )


def find_lost_success(record: RunRecord, limits: Limits) -> Evidence | None:
    """Validation succeeds less often than at its start, and its reward has not fallen."""
    rates, counts = record.read("val/success/rate"), dict(record.read("val/success/count"))
    found = _read_validations(record, limits)
    if len(rates) < 2 or found is None or found.fell:
        return None
    before, after = rates[0][1], rates[-1][1]
    error = math.sqrt(sum(rate * (1 - rate) / max(1.0, counts.get(step, 1.0)) for step, rate in (rates[0], rates[-1])))
    if before - after <= max(2 * error, limits["share"] * before):
        return None
    paid = sorted((one for one in record.last_validation if one.is_success is False), key=_get_reward, reverse=True)
    return Evidence(
        numbers={"first": found.first, "last": found.last, "before": before, "after": after},
        episodes=[one.id for one in paid[:2]] or name_ends(record.late),
    )


def has_risen(record: RunRecord) -> bool:
    """Whether the reward of the last validation is above that of the first by more than chance."""
    curve = record.read(VALIDATION)
    return len(curve) > 1 and curve[-1][1] - curve[0][1] > 2 * _measure_error(record, curve[0][1], curve[-1][1])


def _read_validations(record: RunRecord, limits: Limits) -> Validations | None:
    curve, counts = record.read(VALIDATION), dict(record.read("val/episodes"))
    if len(curve) < 2:
        return None
    first, last = curve[0][1], curve[-1][1]
    best_step, best = max(curve, key=lambda point: point[1])
    fall = first - last
    by_chance = _measure_error(record, first, last)
    large = fall >= limits["half"] * first and fall > 0
    fell = fall > limits["fall"] * max(find_best_reward(record), 0.0) and (fall > 2 * by_chance or large)
    return Validations(
        first=first,
        last=last,
        best=best,
        best_step=best_step,
        count=len(curve),
        fell=fell,
        episodes=int(counts.get(curve[-1][0], 0)),
    )


def _measure_error(record: RunRecord, first: float, last: float) -> float:
    """Return the standard error of the difference of two validations: of the same tasks, if their episodes are stored."""
    before, after = _average_tasks(record.first_validation), _average_tasks(record.last_validation)
    changes = [after[task] - before[task] for task in before if task in after]
    if len(changes) > 2:
        return stdev(changes) / math.sqrt(len(changes))
    spreads, counts = record.read("val/reward/std"), record.read("val/episodes")
    if not spreads or not counts:
        return abs(first - last)
    return math.sqrt(sum(spread**2 for _, spread in (spreads[0], spreads[-1])) / max(1.0, counts[-1][1]))


def _average_tasks(episodes: Sequence[Episode]) -> dict[str, float]:
    rewards: dict[str, list[float]] = {}
    for one in episodes:
        rewards.setdefault(one.task.task_id, []).append(one.reward or 0.0)
    return {task: fmean(values) for task, values in rewards.items()}


def _describe_validations(record: RunRecord, found: Validations, training: Ends | None) -> Evidence:
    before = _average_tasks(record.first_validation)
    worst = sorted(record.last_validation, key=lambda one: (one.reward or 0.0) - before.get(one.task.task_id, 0.0))
    rate, step = float(record.get("trainer_common.optim.lr", 0.0)), found.best_step
    trained = "" if training is None else f"; the training reward went {training.first:.3f} → {training.last:.3f}"
    return Evidence(
        numbers={
            "first": found.first,
            "last": found.last,
            "best": found.best,
            "step": step,
            "episodes": f" (of {found.episodes} episodes)" if found.episodes else "",
            "training": trained,
        },
        episodes=[one.id for one in worst] or name_ends(record.late),
        key="trainer_common.total_training_steps" if step else "trainer_common.optim.lr",
        value=str(step) if step else f"{rate / 3:.1e}",
    )


def _list_components(record: RunRecord) -> list[str]:
    """Return the metrics of the parts of the reward."""
    names = {name for row in record.rows if row["kind"] == "train" for name in row if name.startswith("reward/")}
    return sorted(name for name in names if name.count("/") == 1 and name.removeprefix("reward/") not in NOT_COMPONENTS)


def _find_bought(record: RunRecord, part: str) -> list[str]:
    """Return the highest rewards among those that lack what falls."""
    name = part.removeprefix("reward/")

    def lacks(one: Episode) -> float:
        if part == "success/rate":
            return float(bool(one.is_success))
        return one.verdict.components.get(name, 0.0) if isinstance(one.verdict, Verdict) else 0.0

    return [one.id for one in sorted(record.late, key=lambda one: (lacks(one), -_get_reward(one)))]


def _get_reward(one: Episode) -> float:
    return one.reward or 0.0
