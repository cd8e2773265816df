"""A whole run, top to bottom: play a step's groups, compute advantages, update, validate, save.

Every backbone that does not leave its loop to another trainer is this loop with a `Learner`.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from astuner.errors import ConfigError, Problem
from astuner.judging.advantages import compute_advantages, has_no_signal
from astuner.protocols import Control, RunInfo, TaskSource
from astuner.protocols.optional import find_offer
from astuner.rollout.metrics import compute_rollout_metrics, compute_validation_metrics
from astuner.runs.checkpoints import begin_checkpoint, finish_checkpoint
from astuner.runs.directory import RunDirectory
from astuner.schema import CheckpointSaved, Event, Group, StepReport, ValidationReport
from astuner.training.learner import ComparesWithReference, Learner, Overlaps
from astuner.training.rollouts import Rollouts

if TYPE_CHECKING:
    from astuner.rollout.recipe import Recipe


def train(run: RunInfo, tasks: TaskSource, recipe: Recipe, control: Control, learner: Learner) -> Generator[Event]:
    """Yield a report per step, and validations and checkpoints as they are due; a stop saves the last complete step.

    The learner is in the state of the checkpoint of `control.resume_step`.
    """
    total, settings = tasks.total_steps, run.config.trainer_common
    start = control.resume_step
    directory = RunDirectory(run.directory)
    saved = whole = start
    overlaps = (able := find_offer(learner, Overlaps)) is not None and able.overlaps
    with closing(Rollouts(run, recipe, control, learner)) as rollouts:
        if start == 0 and settings.val_before_train:
            yield from _validate(rollouts, tasks, 0)
        ahead: tuple[list[Group] | None, int] | None = None
        for step in range(start + 1, total + 1):
            began = time.perf_counter()
            groups, spare = ahead or _play(rollouts, run, tasks, step)
            if groups is None:
                break
            played = time.perf_counter()
            by_agent = settings.algorithm.norm_adv_by_agent
            rows = compute_advantages(groups, learner.estimator, _compute_penalties(run, learner, groups), by_agent=by_agent)
            metrics = compute_rollout_metrics(groups, rows, by_agent=by_agent)
            if overlaps and step < total:
                with ThreadPoolExecutor(1) as executor:
                    updating = executor.submit(learner.update, rows, step)
                    ahead = _play(rollouts, run, tasks, step + 1)
                    metrics |= updating.result()
            else:
                metrics, ahead = metrics | learner.update(rows, step), None
            metrics["signal/groups_filtered"] = float(spare)
            if (engine_s := rollouts.take_engine_s()) is not None:
                metrics["time/engine_s"] = engine_s
            rollouts.serve_new_weights(step)
            yield _make_report(step, metrics, groups, began, played)
            last = step == total
            validates = _is_due(settings.test_freq, step) or (last and (settings.test_freq > 0 or settings.val_before_train))
            if validates and not (yield from _validate(rollouts, tasks, step)):
                break
            whole = step
            asked = control.take_save()
            if last or asked or _is_due(settings.save_freq, step) or (settings.keep_best and validates):
                saved = step
                yield _save(directory, learner, step)
            if control.stop:
                break
        # A step whose validation was cut short is not saved: resuming replays it, so that no report is missing.
        if control.stop and learner.step == whole > saved:
            yield _save(directory, learner, whole)


def evaluate(run: RunInfo, tasks: TaskSource, recipe: Recipe, control: Control, learner: Learner) -> Generator[Event]:
    """Yield the report of one validation pass with the weights that the learner holds."""
    with closing(Rollouts(run, recipe, control, learner)) as rollouts:
        yield from _validate(rollouts, tasks, 0)


def checkpoint_to_resume(run: RunInfo, control: Control) -> Path | None:
    """Return the checkpoint that a resumed run continues from; None if it starts from `model.path`."""
    return RunDirectory(run.directory).checkpoint(control.resume_step) if control.resume_step else None


def _play(rollouts: Rollouts, run: RunInfo, tasks: TaskSource, step: int) -> tuple[list[Group] | None, int]:
    """Return the groups of a step and how many were left out for having no signal; None when the user stopped.

    With `filter_groups` further tasks are drawn instead of groups without signal (DAPO, arXiv 2503.14476).
    """
    options = run.config.trainer_common.algorithm.filter_groups
    dead = partial(has_no_signal, by_agent=run.config.trainer_common.algorithm.norm_adv_by_agent)
    groups = rollouts.train(tasks.batch(step), step)
    if groups is None or not options.enable:
        return groups, 0
    wanted, dropped = len(groups), [group for group in groups if dead(group)]
    kept = [group for group in groups if not dead(group)]
    for draw in range(1, options.max_num_gen_batches):
        further = tasks.batch(step, draw)
        if len(kept) >= wanted or not further:
            break
        played = rollouts.train(further, step)
        if played is None:
            return None, 0
        dropped += [group for group in played if dead(group)]
        kept += [group for group in played if not dead(group)]
    # A short batch is filled up with groups without signal: they count in the denominators, as without the filter.
    return [*kept, *dropped][:wanted], len(dropped)


def _compute_penalties(run: RunInfo, learner: Learner, groups: list[Group]) -> dict[tuple[str, str], float]:
    """Return what the divergence from the reference costs each episode and agent, when it is part of the reward."""
    algorithm = run.config.trainer_common.algorithm
    if not algorithm.use_kl_in_reward:
        return {}
    comparing = find_offer(learner, ComparesWithReference)
    if comparing is None:
        message = f"the backbone '{run.backbone}' compares with no reference model. Remove it, or choose a backbone that does."
        raise ConfigError([Problem(key="astuner.trainer_common.algorithm.use_kl_in_reward", message=message)])
    samples = [sample for group in groups for episode in group.episodes for sample in episode.samples]
    penalties: dict[tuple[str, str], float] = {}
    for sample, divergence in zip(samples, comparing.reference_kl(samples), strict=True):
        key = (sample.episode_id, sample.agent)
        penalties[key] = penalties.get(key, 0.0) + algorithm.kl_ctrl.kl_coef * divergence
    return penalties


def _validate(rollouts: Rollouts, tasks: TaskSource, step: int) -> Generator[Event, None, bool]:
    """Yield the report, and return whether the pass was completed."""
    groups = rollouts.validate(tasks.validation(), step)
    if groups:
        yield ValidationReport(step=step, metrics=compute_validation_metrics(groups), groups=tuple(groups))
    return groups is not None


def _save(directory: RunDirectory, learner: Learner, step: int) -> CheckpointSaved:
    learner.save(begin_checkpoint(directory, step))
    return CheckpointSaved(step=step, path=str(finish_checkpoint(directory, step)))


def _make_report(step: int, metrics: dict[str, float], groups: list[Group], began: float, played: float) -> StepReport:
    now = time.perf_counter()
    metrics |= {"time/rollout_s": played - began, "time/update_s": now - played, "time/step_s": now - began}
    metrics["tokens/per_s"] = metrics["tokens/generated"] / max(metrics["time/step_s"], 1e-9)
    return StepReport(step=step, metrics=metrics, groups=tuple(groups))


def _is_due(frequency: int, step: int) -> bool:
    return frequency > 0 and step % frequency == 0
