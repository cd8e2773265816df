"""Symptoms of steps in which nothing can be learnt: no episode, no token or no difference to learn from."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from astuner.contract.schema import Unjudged
from astuner_tools.diagnosis.curves import is_solved, take_late
from astuner_tools.diagnosis.findings import Evidence
from astuner_tools.diagnosis.groups import count_reasons, group_siblings, list_judged, name_ends, name_reason
from astuner_tools.diagnosis.run_record import RunRecord

Limits = Mapping[str, float]
"""The thresholds of a rule, by name."""


def find_failing_episodes(record: RunRecord, limits: Limits) -> Evidence | None:
    """Most episodes fail, for a reason that is not a limit."""
    failed = [one for one in record.late if name_reason(one) not in (None, "context_full", "max_steps", "timeout")]
    if len(record.late) < limits["episodes"] or len(failed) < limits["share"] * len(record.late):
        return None
    [(reason, count)] = count_reasons(failed).most_common(1)
    example = next(one for one in failed if name_reason(one) == reason)
    last = example.failures[-1]
    place = f" at {last.place}" if last.place else ""
    return Evidence(
        numbers={
            "failed": len(failed),
            "episodes": len(record.late),
            "reason": reason,
            "count": count,
            "place": place,
            "detail": " ".join(last.detail.split())[:200],
        },
        episodes=[one.id for one in failed if name_reason(one) == reason],
    )


def find_untrained_tokens(record: RunRecord, limits: Limits) -> Evidence | None:
    """No sampled token of the last steps may be trained."""
    rewarded = [one for one in record.late if one.reward is not None]
    sampled = sum(len(call.output_ids) for one in rewarded for call in one.calls)
    trained = sum(sample.trained for one in rewarded for sample in one.samples)
    if len(rewarded) < limits["episodes"] or not sampled or trained > limits["share"] * sampled:
        return None
    reasons: dict[str, int] = {}
    for one in rewarded:
        for reason, count in one.untrained.items():
            reasons[reason] = reasons.get(reason, 0) + count
    reason = max(reasons, key=lambda name: reasons[name], default="unknown")
    return Evidence(
        numbers={"sampled": sampled, "trained": trained, "reason": reason, "count": reasons.get(reason, 0)},
        episodes=[one.id for one in rewarded],
    )


def find_all_zero(record: RunRecord, limits: Limits) -> Evidence | None:
    """Every reward of the last steps is 0, or the lowest there is."""
    reward = _read_only_reward(record, limits)
    return None if reward is None or reward > 0 else _describe_only(record, reward)


def find_all_solved(record: RunRecord, limits: Limits) -> Evidence | None:
    """Every reward is that of a success, from the first step on."""
    reward, first = _read_only_reward(record, limits), record.read("reward/mean")[:1]
    if reward is None or not is_solved(record) or not first or first[0][1] < limits["first"] * reward:
        return None
    judged = list_judged(record.late)
    known = all(one.is_success for one in judged) if judged else reward == 1
    return _describe_only(record, reward) if known and (record.read("success/rate") or reward == 1) else None


def find_constant_judge(record: RunRecord, limits: Limits) -> Evidence | None:
    """The judge gives one reward, neither 0 nor 1, to answers that differ."""
    judged = list_judged(record.late)
    rewards = {one.reward for one in judged}
    answers = {tuple(str(call.reply.get("content")) for call in one.calls) for one in judged}
    if len(rewards) != 1 or len(judged) < limits["episodes"] or len(answers) < limits["answers"] or rewards & {0.0, 1.0}:
        return None
    return Evidence(
        numbers={"reward": rewards.pop() or 0.0, "episodes": len(judged), "answers": len(answers)},
        episodes=[judged[0].id, judged[-1].id],
    )


def find_equal_siblings(record: RunRecord, limits: Limits) -> Evidence | None:
    """Rewards differ from task to task, and hardly ever among siblings, although these say different things."""
    share = _measure_groups_without_signal(record)
    if share is None or share < limits["share"] or is_solved(record) or len(record.steps) < limits["steps"]:
        return None
    groups = group_siblings(record.late)
    equal = [siblings for siblings in groups if len({one.reward for one in siblings}) == 1]
    return Evidence(
        numbers={"share": share, "repeats": int(record.get("rollout.num_repeat", 0)), "steps": len(record.steps[-5:])},
        episodes=[one.id for siblings in equal[:1] for one in siblings[:2]],
        value=str(2 * int(record.get("rollout.num_repeat", 4))),
    )


def find_failing_judge(record: RunRecord, limits: Limits) -> Evidence | None:
    """The judge fails on many episodes."""
    played = [one for one in record.late if one.completed]
    failed = [(one, one.verdict) for one in played if isinstance(one.verdict, Unjudged)]
    if len(played) < limits["episodes"] or len(failed) < limits["share"] * len(played):
        return None
    reasons: dict[str, int] = {}
    for _, verdict in failed:
        reasons[verdict.reason] = reasons.get(verdict.reason, 0) + 1
    reason = max(reasons, key=lambda name: reasons[name])
    example = next(verdict for _, verdict in failed if verdict.reason == reason)
    return Evidence(
        numbers={
            "failed": len(failed),
            "episodes": len(played),
            "reason": reason,
            "place": f" at {example.place}" if example.place else "",
            "detail": " ".join(example.detail.split())[:200],
        },
        episodes=[one.id for one, _ in failed],
    )


def _read_only_reward(record: RunRecord, limits: Limits) -> float | None:
    """Return the reward that every episode of the last steps has; None if they differ, or are too few."""
    rows = [row for row in record.rows if row["kind"] == "train" and row.get("reward/mean") is not None][-int(limits["steps"]) :]
    if len(rows) < limits["steps"] or any(row.get("reward/std") or row.get("signal/tokens_nonzero_advantage") for row in rows):
        return None
    means = {round(row["reward/mean"], 9) for row in rows}
    return float(means.pop()) if len(means) == 1 else None


def _describe_only(record: RunRecord, reward: float) -> Evidence:
    steps = 0
    for _, mean in reversed(record.read("reward/mean")):
        if abs(mean - reward) > 1e-9:
            break
        steps += 1
    return Evidence(numbers={"reward": reward, "steps": steps}, episodes=name_ends(record.late))


def _measure_groups_without_signal(record: RunRecord) -> float | None:
    """Return their share in the last steps, without those that are solved."""
    groups, without = take_late(record, "signal/groups"), record.read("signal/groups_without_signal")[-5:]
    return fmean(value for _, value in without) / groups if groups and without else None
