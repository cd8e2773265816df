"""The backbone for development: plays the first tasks through any engine, in this process, and trains nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import evolve

from astuner.errors import UsageError
from astuner.protocols import Control, RunInfo, TaskSource
from astuner.schema import Event, Group, Notice, StepReport, Task, ValidationReport

if TYPE_CHECKING:
    from astuner.rollout.recipe import Recipe
    from astuner.rollout.runner import Round


class DebugBackbone:
    """Plays `debug.debug_first_n_tasks` tasks and prints every episode; breakpoints in the workflow and the judge work."""

    name: ClassVar[str] = "debug"
    default_engine: ClassVar[str] = "local"
    honours: ClassVar[tuple[str, ...]] = (
        "debug.debug_max_parallel",
        "debug.debug_first_n_tasks",
        "rollout.name",
        "rollout.max_num_seqs",
    )
    inapplicable: ClassVar[Mapping[str, str]] = {
        "trainer_common.*": "debug does not train",
        "data.train_batch_size": "debug plays debug.debug_first_n_tasks tasks",
        "model.dtype": "the engine loads the model as it is",
        "model.lora_rank": "debug does not train",
        "model.lora_alpha": "debug does not train",
        "model.target_modules": "debug does not train",
        "rollout.max_env_worker": "debug plays debug.debug_max_parallel episodes at a time",
        "rollout.n_vllm_engine": "debug uses one engine",
        "rollout.tensor_model_parallel_size": "debug uses one engine",
        "rollout.multi_turn.expected_steps": "debug builds no training batch",
        "debug.debug_vllm_port": "no vLLM server takes part",
        "debug.debug_vllm_seed": "no vLLM server takes part",
        "debug.debug_tensor_parallel_size": "no vLLM server takes part",
    }

    def train(self, run: RunInfo, tasks: TaskSource, recipe: Recipe, control: Control) -> Generator[Event]:
        """Play the first tasks as training would, and report what a training step would have had."""
        from astuner.rollout.advantages import weigh
        from astuner.rollout.estimator import make_estimator
        from astuner.rollout.host import training_sampling
        from astuner.rollout.metrics import rollout_metrics
        from astuner.rollout.runner import Round
        from astuner.rollout.transcript import transcript

        run = _with_small_concurrency(run)
        round_ = Round(step=1, split="train", repeats=run.config.rollout.num_repeat, sampling=training_sampling(run))
        groups = _play(run, tasks.first(run.config.debug.debug_first_n_tasks), round_, recipe, control)
        for group in groups or ():
            for episode in group.episodes:
                yield Notice(text=transcript(episode, tokens=True))
        if groups is not None:
            by_agent = run.config.trainer_common.algorithm.norm_adv_by_agent
            rows = weigh(groups, make_estimator(run), by_agent=by_agent)
            yield StepReport(step=1, metrics=rollout_metrics(groups, rows, by_agent=by_agent), groups=tuple(groups))

    def evaluate(
        self, run: RunInfo, tasks: TaskSource, recipe: Recipe, checkpoint: Path | None, control: Control
    ) -> Generator[Event]:
        """Play the validation tasks with the engine as it is."""
        from astuner.rollout.host import validation_sampling
        from astuner.rollout.metrics import validation_metrics
        from astuner.rollout.runner import Round

        if checkpoint is not None:
            raise UsageError(
                "--checkpoint: the debug backbone loads no checkpoints; use the backbone that wrote it, or model.path"
            )
        run = _with_small_concurrency(run)
        repeats = run.config.trainer_common.val_pass_n
        round_ = Round(step=0, split="validation", repeats=repeats, sampling=validation_sampling(run))
        groups = _play(run, tasks.validation(), round_, recipe, control)
        if groups is not None:
            yield ValidationReport(step=0, metrics=validation_metrics(groups), groups=tuple(groups))

    def export(self, checkpoint: Path, out: Path, *, merge_lora: bool) -> None:
        """There is nothing to export."""
        raise UsageError("the debug backbone trains nothing, so there is no checkpoint to export")

    def close(self) -> None:
        """Nothing is kept."""


def _with_small_concurrency(run: RunInfo) -> RunInfo:
    rollout = evolve(run.config.rollout, max_env_worker=run.config.debug.debug_max_parallel)
    return evolve(run, config=evolve(run.config, rollout=rollout))


def _play(run: RunInfo, tasks: Any, round_: Round, recipe: Recipe, control: Control) -> list[Group] | None:
    """Return the groups, or None when the user stopped."""
    from astuner.rollout.host import open_rollouts

    parts = recipe.build(run, control.hooks)
    if recipe.engine is None:
        raise AssertionError("a plan has an engine for every backbone with a default one")
    engine = control.hooks.make_engine(recipe.engine.candidate, recipe.engine.options, run)()

    async def play(wanted: list[Task]) -> list[Group] | None:
        from astuner.gateway import load_renderer

        model = run.config.model
        takes_ids = engine.capabilities.token_ids
        renderer = load_renderer(model.path, tool_call_format=model.tool_call_format) if takes_ids else None
        finished = 0

        def count(_: Any) -> None:
            nonlocal finished
            finished += 1
            control.progress("episodes", finished, len(wanted) * round_.repeats)

        async with open_rollouts(
            engine=engine,
            renderer=renderer,
            parts=parts,
            run_info=run,
            store=control.store,
            notify=control.notify,
            on_episode=count,
        ) as runner:
            playing = asyncio.ensure_future(runner.run(wanted, round_))
            loop = asyncio.get_running_loop()
            control.on_stop(lambda: loop.call_soon_threadsafe(playing.cancel))
            try:
                return await playing
            except asyncio.CancelledError:
                if control.stop:
                    return None
                raise

    return asyncio.run(play(list(tasks)))
