"""Symptoms in what the model says: no variety left, one answer for all, longer and longer answers, calls that cannot be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from astuner.contract.schema import Call, Episode
from astuner_tools.diagnosis.curves import compare_ends, compare_values, find_best_reward, is_solved, measure_room, take_late
from astuner_tools.diagnosis.findings import Evidence
from astuner_tools.diagnosis.groups import measure_alike, name_ends, write_last_answer
from astuner_tools.diagnosis.run_record import RunRecord
from astuner_tools.diagnosis.signal_checks import Limits


def find_collapse(record: RunRecord, limits: Limits) -> Evidence | None:
    """The siblings of a task have become the same, although the tasks are not solved."""
    best = find_best_reward(record)
    late, early = measure_alike(record.late, best), measure_alike(record.early, best)
    entropy = compare_ends(record, "entropy/mean", least_steps=3)
    if is_solved(record) or len(record.steps) < limits["steps"]:
        return None
    alike = late is not None and late[0] >= limits["alike"] and (early is None or early[0] < late[0] - limits["more"])
    silent = _has_no_signal(record)
    drained = entropy is not None and entropy.last < limits["entropy"] and entropy.last < limits["fall"] * entropy.first
    if not alike and not (drained and silent):
        return None
    if early is None and not drained:
        return None  # they may have been the same from the beginning
    rate = float(record.get("trainer_common.optim.lr", 0.0))
    return Evidence(
        numbers={
            "alike": late[0] if late else float("nan"),
            "before": f" ({early[0]:.0%} at the start)" if early else "",
            "entropy": f"; the entropy of a token fell {entropy.first:.2g} → {entropy.last:.2g} nats" if entropy else "",
            "lr": rate,
        },
        episodes=[one.id for siblings in (late[1] if late else [])[:1] for one in siblings[:2]] or name_ends(record.late),
        value=f"{rate / 3:.1e}",
    )


def find_no_variety(record: RunRecord, limits: Limits) -> Evidence | None:
    """The siblings of a task are the same from the first step on."""
    best = find_best_reward(record)
    found, early = measure_alike(record.episodes, best), measure_alike(record.early or record.late, best)
    if found is None or early is None or len(found[1]) < limits["groups"] or is_solved(record):
        return None
    if min(found[0], early[0]) < limits["alike"]:
        return None
    temperature = float(record.get("rollout.temperature", 0.0))
    return Evidence(
        numbers={"alike": found[0], "temperature": temperature, "groups": len(found[1])},
        episodes=[one.id for one in found[1][0][:2]],
        value=f"{max(1.0, temperature + 0.3):.1f}",
    )


def find_same_text(record: RunRecord, limits: Limits) -> Evidence | None:
    """One longer text answers many different tasks, and is rewarded for it."""
    texts: dict[str, dict[str, Episode]] = {}
    tasks: set[str] = set()
    for one in record.late:
        text = write_last_answer(one)
        tasks.add(one.task.task_id)
        texts.setdefault(text, {}).setdefault(one.task.task_id, one)
    long = {
        text: by_task
        for text, by_task in texts.items()
        if len(text) >= limits["letters"] and len(text.split()) >= limits["words"]
    }
    if len(tasks) < limits["tasks"] or not long:
        return None
    text, by_task = max(long.items(), key=lambda item: len(item[1]))
    rewards = [one.reward for one in by_task.values() if one.reward is not None]
    everywhere = [one.reward for one in record.late if one.reward is not None]
    if len(by_task) < limits["share"] * len(tasks) or not rewards or fmean(rewards) < fmean(everywhere) or fmean(rewards) <= 0:
        return None
    return Evidence(
        numbers={"same": len(by_task), "tasks": len(tasks), "reward": fmean(rewards), "text": text[:120]},
        episodes=[one.id for one in by_task.values()],
    )


def find_growing_length(record: RunRecord, limits: Limits) -> Evidence | None:
    """Episodes get longer, and the reward does not rise."""
    counts = dict(record.read("signal/episodes"))
    lengths = [tokens / counts[step] for step, tokens in record.read("tokens/generated") if counts.get(step)]
    ends, reward = compare_values(lengths, least_steps=int(limits["steps"])), compare_ends(record, "reward/mean")
    if ends is None or reward is None or ends.first <= 0 or is_solved(record):
        return None
    if (
        reward.rose(limits["rise"] * measure_room(record, reward.first))
        or not ends.rose()
        or ends.last < limits["growth"] * ends.first
    ):
        return None
    longest = sorted(record.late, key=lambda one: -sum(len(call.output_ids) for call in one.calls))
    return Evidence(
        numbers={"before": ends.first, "after": ends.last, "first": reward.first, "last": reward.last, "steps": reward.steps},
        episodes=[one.id for one in longest],
    )


def find_malformed_calls(record: RunRecord, limits: Limits) -> Evidence | None:
    """More and more tool calls cannot be read, or many cannot from the start."""
    before, now = _count_calls(record.early), _count_calls(record.late)
    if now["calls"] < limits["calls"]:
        return None
    share = now["malformed"] / now["calls"]
    first = before["malformed"] / before["calls"] if before["calls"] else 0.0
    rising = bool(before["calls"]) and share >= limits["rising"] and share >= first + limits["rise"]
    if not rising and share < limits["share"]:
        return None
    broken = [one for one in record.late if any(_is_malformed(call) for call in one.calls)]
    example = next(call for call in broken[0].calls if _is_malformed(call))
    return Evidence(
        numbers={
            "share": share,
            "first": first,
            "malformed": now["malformed"],
            "calls": now["calls"],
            "text": " ".join(str(example.reply.get("content") or "").split())[:120],
        },
        episodes=[one.id for one in broken],
    )


def _count_calls(episodes: Sequence[Episode]) -> Counter[str]:
    """Count answers that hold a tool call, and those of them that cannot be read."""
    found: Counter[str] = Counter({"calls": 0, "malformed": 0})
    for call in (call for one in episodes for call in one.calls):
        malformed = _is_malformed(call)
        found["malformed"] += malformed
        found["calls"] += malformed or bool(call.reply.get("tool_calls"))
    return found


def _is_malformed(call: Call) -> bool:
    # One that a limit cut off is the limit's fault.
    return bool(call.reply.get("malformed_tool_call")) and call.finish_reason == "stop"


def _has_no_signal(record: RunRecord) -> bool:
    groups, without = take_late(record, "signal/groups"), take_late(record, "signal/groups_without_signal")
    return bool(groups) and without is not None and without >= 0.6 * (groups or 0)
