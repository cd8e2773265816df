"""The backbone for development: plays the first tasks through any engine, in this process, and trains nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from attrs import evolve

from astuner.contract.errors import UsageError
from astuner.contract.protocols import BackboneTraits, Control, EstimatorTraits, RunInfo, TaskSource, read_traits
from astuner.contract.schema import Episode, Event, Group, StepReport, Task, ValidationReport
from astuner.episodes.containment.guarded_loop import GuardedLoop
from astuner.settings.config.pretrained import is_on_disk
from astuner.settings.config.rollout import SCRIPTED
from astuner.shared.known_packages import read_known_packages

if TYPE_CHECKING:
    from astuner.episodes.builtin.debug.debug_report import DebugReport
    from astuner.episodes.rollout.recipe import Recipe
    from astuner.episodes.rollout.runner import Round


class DebugBackbone:
    """Plays `debug.debug_first_n_tasks` tasks and prints every episode; breakpoints work in the workflow and the judge."""

    name: ClassVar[str] = "debug"
    traits = BackboneTraits(
        throwaway=True,
        default_engines=read_known_packages().engine_order,
        honours=("debug.debug_max_parallel", "debug.debug_first_n_tasks", "rollout.name", "rollout.max_num_seqs"),
        inapplicable={
            "trainer_common.*": "debug does not train",
            "data.train_batch_size": "debug plays debug.debug_first_n_tasks tasks",
            "data.sampler": "debug plays debug.debug_first_n_tasks tasks",
            "model.dtype": "the engine loads the model unchanged",
            "model.lora_rank": "debug does not train",
            "model.lora_alpha": "debug does not train",
            "model.target_modules": "debug does not train",
            "model.adapters.*": "debug does not train",
            "model.opponents.*": "debug does not train",
            "rollout.max_env_worker": "debug plays debug.debug_max_parallel episodes at a time",
            "rollout.n_vllm_engine": "debug uses one engine",
            "rollout.tensor_model_parallel_size": "debug uses one engine",
            "rollout.multi_turn.expected_steps": "debug builds no training batch",
            "debug.debug_vllm_port": "only an engine that starts its own server reads it",
            "debug.debug_vllm_seed": "only an engine that starts its own server reads it",
            "debug.debug_tensor_parallel_size": "only an engine that starts its own server reads it",
        },
        trains=False,
    )

    def train(self, run: RunInfo, tasks: TaskSource, recipe: Recipe, control: Control) -> Generator[Event]:
        """Play the first tasks as in training, and report the samples that a training step would have."""
        from astuner.episodes.builtin.debug.debug_report import DebugReport
        from astuner.episodes.judging.advantages import compute_advantages
        from astuner.episodes.rollout.host import make_training_sampling
        from astuner.episodes.rollout.metrics import compute_rollout_metrics
        from astuner.episodes.rollout.runner import Round

        run = _prepare(run, recipe, control)
        repeats, by_agent = run.config.rollout.num_repeat, run.config.trainer_common.algorithm.norm_adv_by_agent
        estimator = recipe.make_estimator(run, control.hooks)
        greedy = read_traits(estimator, EstimatorTraits).wants_greedy
        round_ = Round(step=1, split="train", repeats=repeats, sampling=make_training_sampling(run), greedy=greedy)
        report = DebugReport(run, control, "train", len(round_.places))
        groups = None
        try:
            groups = _play(run, tasks.first(run.config.debug.debug_first_n_tasks), round_, recipe, control, report)
        finally:
            # Shown even if the run was stopped or lost too many episodes.
            rows = compute_advantages(groups or report.groups, estimator, by_agent=by_agent)
            report.show_samples(rows)
        if groups is not None:
            yield StepReport(step=1, metrics=compute_rollout_metrics(groups, rows), groups=tuple(groups))

    def evaluate(
        self, run: RunInfo, tasks: TaskSource, recipe: Recipe, checkpoint: Path | None, control: Control
    ) -> Generator[Event]:
        """Play the validation tasks with the engine as it is."""
        from astuner.episodes.builtin.debug.debug_report import DebugReport
        from astuner.episodes.rollout.host import make_validation_sampling
        from astuner.episodes.rollout.metrics import compute_validation_metrics
        from astuner.episodes.rollout.runner import Round

        if checkpoint is not None:
            raise UsageError(
                "--checkpoint: the debug backbone loads no checkpoints; use the backbone that wrote it, or model.path"
            )
        run = _prepare(run, recipe, control)
        repeats = run.config.trainer_common.val_pass_n
        round_ = Round(step=0, split="validation", repeats=repeats, sampling=make_validation_sampling(run))
        report = DebugReport(run, control, "validation", repeats)
        groups = _play(run, tasks.validation(), round_, recipe, control, report)
        if groups is not None:
            yield ValidationReport(step=0, metrics=compute_validation_metrics(groups), groups=tuple(groups))

    def export(self, checkpoint: Path, out: Path, *, merge_lora: bool, dtype: str | None = None) -> None:
        """Refuse: there is nothing to export."""
        raise UsageError("the debug backbone trains nothing, so there is no checkpoint to export")

    def close(self) -> None:
        """Do nothing."""


def _prepare(run: RunInfo, recipe: Recipe, control: Control) -> RunInfo:
    """Limit the concurrency; where bytes are the tokens, make room for them."""
    config = run.config
    rollout, data = evolve(config.rollout, max_env_worker=config.debug.debug_max_parallel), config.data
    if _takes_bytes(run, recipe):
        from astuner.model.rendering.byte_tokenizer import BYTES_PER_TOKEN, DATA_LENGTHS, ROLLOUT_LENGTHS

        missing = f"{config.model.path} is not on this machine" if config.model.path else "model.path is not set"
        control.notify(f"{missing}, so each byte is a token, and limits of length are {BYTES_PER_TOKEN} times as high", "info")
        rollout = evolve(rollout, **{name: getattr(rollout, name) * BYTES_PER_TOKEN for name in ROLLOUT_LENGTHS})
        data = evolve(data, **{name: getattr(data, name) * BYTES_PER_TOKEN for name in DATA_LENGTHS})
    return evolve(run, config=evolve(config, rollout=rollout, data=data))


def _takes_bytes(run: RunInfo, recipe: Recipe) -> bool:
    """Whether a script answers, and the tokenizer of the model is not here."""
    return recipe.engine is not None and recipe.engine.candidate.name == SCRIPTED and not is_on_disk(run.config.model.path)


def _play(
    run: RunInfo, tasks: Sequence[Task], round_: Round, recipe: Recipe, control: Control, report: DebugReport
) -> list[Group] | None:
    """Return the groups, or None when the user stopped."""
    from astuner.episodes.rollout.group_runner import open_group_runner
    from astuner.episodes.rollout.stopping import cancel_on_stop, wait_until_stopped
    from astuner.model.rendering import load_renderer
    from astuner.model.rendering.byte_tokenizer import load_renderer_or_bytes

    if recipe.engine is None:
        raise AssertionError("a plan has an engine for every backbone with a default one")
    engine = control.hooks.make_engine(recipe.engine.candidate, recipe.engine.options, run)()

    model = run.config.model
    load = load_renderer_or_bytes if _takes_bytes(run, recipe) else load_renderer
    renderer = load(model.path, **model.rendering) if engine.capabilities.token_ids else None
    report.decode_with(renderer)
    finished = 0

    def show(episode: Episode) -> None:
        nonlocal finished
        finished += 1
        report.show_episode(episode)
        control.progress("episodes", finished, len(tasks) * len(round_.places))

    opening = open_group_runner(
        engine=engine,
        renderer=renderer,
        recipe=recipe,
        run_info=run,
        control=control,
        on_episode=show,
        on_group=report.show_group,
    )

    async def play() -> list[Group]:
        async with opening as runner:
            return await runner.run(tasks, round_)

    async def play_until_stopped() -> list[Group] | None:
        # A stop cancels everything, including a server that is still starting.
        playing = asyncio.ensure_future(play())
        cancel_on_stop(control, asyncio.get_running_loop(), playing.cancel)
        return await wait_until_stopped(playing, control)

    try:
        with asyncio.Runner(loop_factory=GuardedLoop) as runner:
            return runner.run(play_until_stopped())
    finally:
        report.show_unjudged()
