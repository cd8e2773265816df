"""A whole run, top to bottom: play a step's groups, compute advantages, update, validate, save.

Every backbone that does not leave its loop to another trainer is this loop with a `Learner`.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import Control, Estimator, EstimatorTraits, RunInfo, TaskSource
from astuner.contract.protocols.traits import read_traits
from astuner.contract.schema import CheckpointSaved, Event, Group, Sample, Sampling, StepReport, ValidationReport
from astuner.episodes.judging.advantages import Owner, WeightedSample, compute_advantages, has_no_signal, is_group_relative
from astuner.episodes.rollout.host import make_training_sampling
from astuner.episodes.rollout.metrics import compute_rollout_metrics, compute_validation_metrics
from astuner.runs.store.atomic import write_json
from astuner.runs.store.checkpoints import begin_checkpoint, finish_checkpoint, is_best_validation, mark_as_best_only
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.metric_rows import read_metric_rows
from astuner.runs.training.entropy import EntropyWeight
from astuner.runs.training.group_filter import PlayedGroups, filter_groups
from astuner.runs.training.learner import Learner, LearnerTraits
from astuner.runs.training.mismatch import MismatchWatch
from astuner.runs.training.rollouts import Rollouts
from astuner.runs.training.step_clock import StepClock
from astuner.runs.training.task_choice import TaskChoice
from astuner.runs.training.token_recorder import TokenRecorder

if TYPE_CHECKING:
    from astuner.episodes.rollout.recipe import Recipe


ESTIMATOR_STATE = "estimator.json"
"""What an estimator remembers, in a checkpoint."""


def train(run: RunInfo, tasks: TaskSource, recipe: Recipe, control: Control, learner: Learner) -> Generator[Event]:
    """Yield a report per step, and validations and checkpoints as they are due; a stop saves the last complete step.

    The learner is in the state of the checkpoint of `control.resume_step`.
    """
    _check_learner(run, learner)
    if (saved_at := checkpoint_to_resume(run, control)) is not None:
        _restore_estimator(learner, saved_at)
    total, settings = tasks.total_steps, run.config.trainer_common
    start = control.resume_step
    directory = RunDirectory(run.directory)
    saved = whole = start
    recorder, traits = TokenRecorder.open(directory, settings.token_record), read_traits(learner, LearnerTraits)
    entropy = EntropyWeight.open(directory, settings.algorithm.entropy_ctrl, start)
    choice = TaskChoice.open(run, tasks, recipe, control)
    with closing(Rollouts(run, recipe, control, learner)) as rollouts:
        watch = MismatchWatch(warn=control.notify, sampled_by=rollouts.sampled_by)
        if settings.val_before_train if start == 0 else _lacks_validation(directory, start):
            yield from _validate(rollouts, tasks, start, watch)
        ahead: PlayedGroups | None = None
        clock = StepClock()
        for step in range(start + 1, total + 1):
            played = ahead or _play(rollouts, run, choice, step, clock)
            groups = played.groups
            if groups is None:
                break
            clock.begin_update()
            rows = _weigh(run, learner, groups)
            metrics = compute_rollout_metrics(groups, rows, left_out=played.left_out)
            if entropy is not None:
                metrics["entropy/coeff"] = entropy.coeff
                cast("Any", learner).set_entropy_coeff(entropy.coeff)
            if traits.overlaps and step < total:
                with ThreadPoolExecutor(1) as executor:
                    updating = executor.submit(_update, learner, rows, step, clock)
                    ahead = _play(rollouts, run, choice, step + 1, clock)
                    metrics |= updating.result()
            else:
                metrics, ahead = metrics | _update(learner, rows, step, clock), None
            if entropy is not None:
                entropy.adapt(metrics.get("entropy/mean"))
            if recorder is not None and traits.records_tokens:
                values = cast("Any", learner).take_token_values()
                recorder.record(step, groups, rows, values)
                # What the trainer itself has measured is exact: the recorded values may be rounded.
                metrics = watch.measure_update(step, rows, values, is_stale=metrics.get("staleness/max", 0) > 0) | metrics
            metrics |= played.counts | choice.measure(step)
            if (engine_s := rollouts.take_engine_s(step)) is not None:
                metrics["time/engine_s"] = engine_s
            rollouts.serve_new_weights(step)
            metrics |= clock.take(step)
            metrics["tokens/per_s"] = metrics["tokens/generated"] / max(metrics["time/step_s"], 1e-9)
            yield StepReport(step=step, metrics=metrics, groups=(*groups, *played.left_out))
            last = step == total
            validates = _is_due(settings.test_freq, step) or (last and (settings.test_freq > 0 or settings.val_before_train))
            whole = step
            if validates and not (yield from _validate(rollouts, tasks, step, watch)):
                directory.write_state(validation_due=step)
                break
            due = control.take_save() or last or _is_due(settings.save_freq, step)
            if due or (validates and settings.keep_best is not False and is_best_validation(directory, step)):
                saved = step
                mark_as_best_only(directory, step, not due)
                yield _save(directory, learner, choice, step)
            if control.stop:
                break
        if control.stop and learner.step == whole > saved:
            yield _save(directory, learner, choice, whole)


def evaluate(run: RunInfo, tasks: TaskSource, recipe: Recipe, control: Control, learner: Learner) -> Generator[Event]:
    """Yield the report of one validation pass with the weights that the learner holds."""
    with closing(Rollouts(run, recipe, control, learner)) as rollouts:
        yield from _validate(rollouts, tasks, 0, MismatchWatch(warn=control.notify, sampled_by=rollouts.sampled_by))


def checkpoint_to_resume(run: RunInfo, control: Control) -> Path | None:
    """Return the checkpoint that a resumed run continues from; None if it starts from `model.path`."""
    return RunDirectory(run.directory).checkpoint(control.resume_step) if control.resume_step else None


def _play(rollouts: Rollouts, run: RunInfo, choice: TaskChoice, step: int, clock: StepClock) -> PlayedGroups:
    with clock.rollout(step):
        played = _play_groups(rollouts, run, choice, step)
    if played.groups is not None:
        choice.observe(step, (*played.groups, *played.left_out))
    return played


def _play_groups(rollouts: Rollouts, run: RunInfo, choice: TaskChoice, step: int) -> PlayedGroups:
    """Return the groups of a step, and those that were played and are not trained.

    With `filter_groups` further tasks are drawn instead of groups without signal.
    """
    options, by_agent = run.config.trainer_common.algorithm.filter_groups, run.config.trainer_common.algorithm.norm_adv_by_agent
    groups = rollouts.train(choice.batch(step), step)
    if groups is None or not options.enable:
        return PlayedGroups(groups=groups)
    wanted, played = len(groups), list(groups)
    for draw in range(1, options.max_num_gen_batches):
        enough = sum(not has_no_signal(group, by_agent=by_agent) for group in played) >= wanted
        if enough or not (further := choice.batch(step, draw)):
            break
        found = rollouts.train(further, step)
        if found is None:
            return PlayedGroups(groups=None)
        played += found
    return filter_groups(played, wanted, by_agent=by_agent)


def _update(learner: Learner, rows: Sequence[WeightedSample], step: int, clock: StepClock) -> dict[str, float]:
    found = learner.update(rows, step)
    clock.end_update()
    return found


def _check_learner(run: RunInfo, learner: Learner) -> None:
    if run.config.trainer_common.algorithm.filter_groups.enable and not is_group_relative(learner.estimator):
        message = (
            f"{run.config.trainer_common.algorithm.adv_estimator!r} compares with more than siblings, so that groups whose "
            "rewards are all equal give signal too. Turn it off, or choose an estimator that compares siblings, such as grpo."
        )
        raise ConfigError([Problem(key="astuner.trainer_common.algorithm.filter_groups.enable", message=message)])
    learns = read_traits(learner, LearnerTraits)
    check_estimator(run, learner.estimator, learns)
    target = run.config.trainer_common.algorithm.entropy_ctrl.target
    if target is not None and not learns.weighs_entropy:
        message = f"the backbone '{run.backbone}' weighs no entropy from step to step. Remove it, or choose a backbone that does."
        raise ConfigError([Problem(key="astuner.trainer_common.algorithm.entropy_ctrl.target", message=message)])


def check_estimator(run: RunInfo, estimator: Estimator, learns: LearnerTraits) -> None:
    """Raise `ConfigError` for an estimator that needs more than a learner with these traits has; for a check before it starts."""
    traits = read_traits(estimator, EstimatorTraits)
    name, backbone = run.config.trainer_common.algorithm.adv_estimator, f"the backbone '{run.backbone}'"
    for needed, given, lack in (
        (traits.beyond_advantages, learns.weighs_streams, f"{backbone} trains no likelihood and no divergence of an estimator"),
        (bool(traits.scored_by), learns.scores_with_models, f"{backbone} scores with no other model"),
    ):
        if needed and not given:
            message = f"{name!r} needs more than advantages, and {lack}. Choose another estimator, or a backbone that does."
            raise ConfigError([Problem(key="astuner.trainer_common.algorithm.adv_estimator", message=message)])


def _weigh(run: RunInfo, learner: Learner, groups: list[Group]) -> list[WeightedSample]:
    scorers = read_traits(learner.estimator, EstimatorTraits).scored_by
    samples = [one for group in groups for episode in group.episodes for one in episode.samples] if scorers else []
    sampling = Sampling(temperature=make_training_sampling(run).temperature)
    scores = {name: _join(samples, cast("Any", learner).score_with(name, samples, sampling)) for name in scorers}
    penalties, by_agent = _compute_penalties(run, learner, groups), run.config.trainer_common.algorithm.norm_adv_by_agent
    return compute_advantages(groups, learner.estimator, penalties, by_agent=by_agent, scores=scores)


def _join(samples: Sequence[Sample], values: Sequence[NDArray[np.float64]]) -> dict[Owner, NDArray[np.float64]]:
    """Return the values of each episode's agent, in the order of its samples."""
    found: dict[Owner, list[NDArray[np.float64]]] = {}
    for sample, own in zip(samples, values, strict=True):
        found.setdefault((sample.episode_id, sample.agent), []).append(own)
    return {owner: np.concatenate(parts) for owner, parts in found.items()}


def _compute_penalties(run: RunInfo, learner: Learner, groups: list[Group]) -> dict[Owner, NDArray[np.float64]]:
    """Return what the divergence from the reference costs each trained token, by episode and agent, if it counts there."""
    algorithm = run.config.trainer_common.algorithm
    if not algorithm.use_kl_in_reward:
        return {}
    if not read_traits(learner, LearnerTraits).compares_with_reference:
        message = f"the backbone '{run.backbone}' compares with no reference model. Remove it, or choose a backbone that does."
        raise ConfigError([Problem(key="astuner.trainer_common.algorithm.use_kl_in_reward", message=message)])
    samples = [sample for group in groups for episode in group.episodes for sample in episode.samples]
    found = _join(samples, cast("Any", learner).reference_kl(samples))
    return {owner: algorithm.kl_ctrl.kl_coef * divergence for owner, divergence in found.items()}


def _validate(rollouts: Rollouts, tasks: TaskSource, step: int, watch: MismatchWatch) -> Generator[Event, None, bool]:
    """Yield the report, and return whether the pass was completed."""
    groups = rollouts.validate(tasks.validation(), step)
    if groups:
        metrics = compute_validation_metrics(groups) | watch.measure_validation(step, *rollouts.score(groups))
        yield ValidationReport(step=step, metrics=metrics, groups=tuple(groups))
    return groups is not None


def _lacks_validation(directory: RunDirectory, step: int) -> bool:
    """Whether a stop cut the validation of a step short that was saved nevertheless, and none was logged since."""
    logged = (row["step"] == step and row["kind"] == "validation" for row in read_metric_rows(directory.metrics).rows)
    return directory.state.get("validation_due") == step and not any(logged)


def _save(directory: RunDirectory, learner: Learner, choice: TaskChoice, step: int) -> CheckpointSaved:
    begun = begin_checkpoint(directory, step)
    learner.save(begun)
    choice.save(begun, step)
    if read_traits(learner.estimator, EstimatorTraits).keeps_state:
        write_json(begun / ESTIMATOR_STATE, {"state": cast("Any", learner.estimator).get_state()})
    return CheckpointSaved(step=step, path=str(finish_checkpoint(directory, step)))


def _restore_estimator(learner: Learner, checkpoint: Path) -> None:
    """Give the estimator the state that it had there; without a saved one it keeps its first."""
    state = checkpoint / ESTIMATOR_STATE
    if read_traits(learner.estimator, EstimatorTraits).keeps_state and state.is_file():
        cast("Any", learner.estimator).set_state(json.loads(state.read_text(encoding="utf-8"))["state"])


def _is_due(frequency: int, step: int) -> bool:
    return frequency > 0 and step % frequency == 0
