"""What a run is and what came of it: before and after on the validation."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from astuner.runs.store.metric_rows import Row
from astuner_tools.evaluations.statistics import compute_sign_test, estimate_mean
from astuner_tools.exporting.base_model import find_base
from astuner_tools.reporting.evidence import Cited, Evidence, cite_file
from astuner_tools.task_scores import add_up_scores
from astuner_tools.training_facts import describe_sampling, list_facts
from astuner_tools.validation_measures import format_mean, format_share, measure_reward, measure_success


def describe_tuning(evidence: Evidence) -> Mapping[str, Cited]:
    """Return what was tuned, by label: the model, the agent, the tasks, the judge and the settings."""
    run, model = evidence.run, find_base(None, evidence.run, None).name
    found = [*list_facts(run, "origin"), *list_facts(run)]
    named = {"model": cite_file("config.yaml: astuner.model.path", model)} if model else {}
    return {**named, **{label: cite_file(place, value) for label, value, place in found}}


def describe_outcome(evidence: Evidence) -> dict[str, Any]:
    """Return the state of the run, and the first, the best and the last validation with their difference."""
    run, steps, rows = evidence.run, list(evidence.by_step["train"]), evidence.validations
    facts, state, planned = run.facts, run.state, run.facts.get("total_training_steps")
    attempts = len(facts.get("attempts") or ())
    rewards = evidence.read_curve("reward/mean")
    best = max(rows, key=lambda row: (row["val/reward/mean"], -row["step"]), default={})
    return {
        "status": state.status,
        "reason": cite_file("state.json: reason", state.detail) if state.detail else None,
        "steps": cite_file("metrics.jsonl: the last training step", steps[-1]) if steps else None,
        "planned": cite_file("run.json: total_training_steps", planned) if planned else None,
        "attempts": cite_file("run.json: attempts", attempts) if attempts > 1 else None,
        "prompts": (run.path / "prompts.json").exists(),
        "rewards": [(step, evidence.cite("reward/mean", step)) for step, _ in [*rewards[:1], *rewards[1:][-1:]]],
        "validations": [_describe_validation(evidence, row) for row in rows if row in (rows[0], best, rows[-1])],
        "best": best.get("step"),
        "sampling": describe_sampling(run.config),
        "change": _compare_tasks(evidence),
    }


def _describe_validation(evidence: Evidence, row: Row) -> dict[str, Any]:
    step = row["step"]
    success = format_share(measure_success(row)) if "val/success/rate" in row else None
    counts = {name: evidence.cite(f"val/{name}", step) for name in ("tasks", "episodes", "failed")}
    reward = evidence.cite("val/reward/mean", step, format_mean(measure_reward(row)))
    return {"step": step, **counts, "reward": reward, "success": evidence.cite("val/success/rate", step, success)}


def _compare_tasks(evidence: Evidence) -> dict[str, Any] | None:
    """Return the change of the mean reward by task; None unless tasks of both validations are stored."""
    old, new = ({task: score.read("reward") for task, score in add_up_scores(end).items()} for end in evidence.ends or ((), ()))
    pairs = [(old.get(task), after) for task, after in new.items()]
    changes = [after - before for before, after in pairs if before is not None and after is not None]
    if not changes:
        return None
    better, worse = sum(one > 0 for one in changes), sum(one < 0 for one in changes)
    mean, chance = estimate_mean(changes, seed=0), compute_sign_test(better, worse)
    command = shlex.join(["astuner", "episodes", evidence.name, "--split", "validation"])
    texts = {"mean": (format_mean(mean, "+"), mean.value), "better": (f"{better:,} of {len(changes):,}", better)}
    texts |= {"worse": (f"{worse:,}", worse), "p": (f"{chance:.2g}", chance)}
    place = "episodes/validation.jsonl: first and last validation, paired by task"
    figures = {key: Cited(text=text, value=value, place=place, command=command) for key, (text, value) in texts.items()}
    return {**figures, "decided": mean.excludes_zero and chance < 0.05}
