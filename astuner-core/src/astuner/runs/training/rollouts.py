"""Rollouts for the training loop: plain calls, over one event loop that lives as long as the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import ConfigError, Interrupted, Problem
from astuner.contract.protocols import Control, Engine, EngineTraits, EstimatorTraits, RunInfo
from astuner.contract.protocols.traits import read_traits
from astuner.contract.schema import Episode, Group, Sample, Sampling, Task
from astuner.episodes.containment.guarded_loop import GuardedLoop
from astuner.episodes.rollout.group_runner import GroupRunner, open_group_runner
from astuner.episodes.rollout.host import make_training_sampling, make_validation_sampling
from astuner.episodes.rollout.runner import Round
from astuner.episodes.rollout.stopping import cancel_on_stop, wait_until_stopped
from astuner.runs.store.atomic import explain_os_errors
from astuner.runs.training.learner import Learner, LearnerTraits
from astuner.runs.training.mismatch import choose_scored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from astuner.episodes.rollout.recipe import Recipe
    from astuner.model.gateway import Rewriter
    from astuner.model.rendering import TemplateRenderer


class Rollouts:
    """Plays groups with the learner's current weights. `astuner.runs.training.loop` uses it; your own loop may too."""

    def __init__(self, run: RunInfo, recipe: Recipe, control: Control, learner: Learner) -> None:
        """Open engine, gateway and runner; `close` ends them."""
        self._run, self._control = run, control
        self._learner: Any = learner
        self._traits = read_traits(learner, LearnerTraits)
        self._repeats = run.config.rollout.num_repeat
        self._engine, self._over_learner = self._make_engine(recipe)
        self._loop = asyncio.Runner(loop_factory=GuardedLoop)
        self._stack = AsyncExitStack()
        self._playing: asyncio.Task[Any] | None = None
        self._done = self._total = 0
        self._what = ""
        self._engine_s: dict[int, float] = {}
        renderer = self._renderer() if self._engine.capabilities.token_ids else None
        self.sampled_by = self._describe_sampler(recipe, renderer)
        """The engine and the template, for messages."""
        opening = open_group_runner(
            engine=self._engine, renderer=renderer, recipe=recipe, run_info=run, control=control, on_episode=self._count
        )
        cancel_on_stop(control, self._loop.get_loop(), self._cancel)
        try:
            self._runner = self._loop.run(self._open(opening, recipe))
        except (asyncio.CancelledError, Exception) as error:
            self._loop.close()
            # What is cancelled half-way may end with an error of its own.
            if control.stop:
                raise Interrupted("stopped before the engine was ready") from error
            raise
        except BaseException:
            self._loop.close()
            raise

    def train(self, tasks: Sequence[Task], step: int) -> list[Group] | None:
        """Play the groups of a training step; None when the user stopped. Finished episodes are in the store either way."""
        configured = make_training_sampling(self._run)
        sampling = self._learner.sampling(configured) if self._traits.adjusts_sampling else configured
        # What tunes prompts has no estimator.
        greedy = read_traits(getattr(self._learner, "estimator", None), EstimatorTraits).wants_greedy
        round_ = Round(
            step=step, split="train", repeats=self._repeats, sampling=sampling, rewriter=self._rewriter(), greedy=greedy
        )
        before = self._busy_s() or 0.0
        groups = self._play(tasks, round_, "rollout")
        self._engine_s[step] = self._engine_s.get(step, 0.0) + (self._busy_s() or 0.0) - before
        return groups

    def validate(self, tasks: Sequence[Task], step: int) -> list[Group] | None:
        """Play the validation tasks; None when the user stopped."""
        repeats = self._run.config.trainer_common.val_pass_n
        sampling = make_validation_sampling(self._run)
        round_ = Round(step=step, split="validation", repeats=repeats, sampling=sampling, rewriter=self._rewriter())
        return self._play(tasks, round_, "validation")

    def score(self, groups: Sequence[Group]) -> tuple[list[Sample], Sequence[NDArray[Any]]]:
        """Return some samples of a validation, and what the learner says of their trained tokens; none if it scores none."""
        if not self._traits.scores_samples:
            return [], []
        samples = choose_scored([sample for group in groups for episode in group.episodes for sample in episode.samples])
        sampling = make_validation_sampling(self._run)
        # What is sampled greedily has its log-probabilities at temperature 1.
        return samples, self._learner.score(samples, sampling if sampling.temperature > 0 else Sampling())

    def take_engine_s(self, step: int) -> float | None:
        """Return for how long the engine worked on the episodes of a step; None if it does not report that."""
        taken = self._engine_s.pop(step, 0.0)
        return None if self._busy_s() is None else taken

    def serve_new_weights(self, version: int) -> None:
        """Give the engine the current weights, if any are trained."""
        if self._traits.serves_weights:
            with explain_os_errors(self._run.directory):
                self._loop.run(self._engine.update_weights(self._learner.weights(), version))

    def close(self) -> None:
        """End everything."""
        try:
            self._loop.run(self._stack.aclose())
        finally:
            self._loop.close()

    def _make_engine(self, recipe: Recipe) -> tuple[Engine, bool]:
        """Return the learner's own engine or the one that the user named, and whether it is the learner's own."""
        own = self._learner.own_engine() if self._traits.brings_engine else None
        if own is not None:
            return own, True
        if recipe.engine is None:
            message = f"the backbone '{self._run.backbone}' does not bring an engine; name an installed one, such as openai"
            raise ConfigError([Problem(key="astuner.rollout.name", message=message)])
        engine = self._control.hooks.make_engine(recipe.engine.candidate, recipe.engine.options, self._run)()
        if self._traits.serves_weights:
            check_trainable(engine, recipe)
            model = self._run.config.model
            if (model.adapters or model.opponents) and not engine.capabilities.several_models:
                message = f"{recipe.engine.candidate.blame} serves one model; model.adapters and model.opponents need several"
                raise ConfigError([Problem(key="astuner.rollout.name", message=message, suggestion="auto")])
        return engine, False

    def _describe_sampler(self, recipe: Recipe, renderer: TemplateRenderer | None) -> str:
        chosen = None if self._over_learner else recipe.engine
        engine = f"the engine of '{self._run.backbone}'" if chosen is None else f"the engine '{chosen.candidate.name}'"
        template = "" if renderer is None else f", in the template of {renderer.source} (tool calls: {renderer.tool_call_format})"
        return f"{engine}{template}"

    def _rewriter(self) -> Rewriter | None:
        return self._learner.rewriter if self._traits.rewrites_messages else None

    def _renderer(self) -> TemplateRenderer:
        if self._traits.brings_renderer:
            renderer: TemplateRenderer = self._learner.renderer
            return renderer
        from astuner.model.rendering import load_renderer

        return load_renderer(self._run.config.model.path, **self._run.config.model.rendering)

    async def _open(self, opening: AbstractAsyncContextManager[GroupRunner], recipe: Recipe) -> GroupRunner:
        """Start everything, and give an engine with its own model the learner's weights."""
        self._playing = asyncio.current_task()
        try:
            if self._control.stop:
                raise asyncio.CancelledError
            runner = await self._stack.enter_async_context(opening)
            try:
                if self._traits.serves_weights and not self._over_learner:
                    # Its abilities and its loaded model are known only now.
                    check_trainable(self._engine, recipe)
                    with explain_os_errors(self._run.directory):
                        await self._engine.update_weights(self._learner.weights(), self._control.resume_step)
            except BaseException:
                await self._stack.aclose()
                raise
        finally:
            self._playing = None
        return runner

    def _play(self, tasks: Sequence[Task], round_: Round, what: str) -> list[Group] | None:
        if self._control.stop:
            return None
        self._what, self._done, self._total = what, 0, len(tasks) * len(round_.places)

        async def play() -> list[Group] | None:
            self._playing = playing = asyncio.ensure_future(self._runner.run(tasks, round_))
            try:
                return await wait_until_stopped(playing, self._control)
            finally:
                self._playing = None

        return self._loop.run(play())

    def _busy_s(self) -> float | None:
        # Workers that reach the engine's servers themselves work at the same time: the busiest one counts.
        measuring: list[Any] = [
            part for part in (self._engine, self._runner) if read_traits(part, EngineTraits).measures_busy_time
        ]
        return max((busy_s for part in measuring if (busy_s := part.busy_s) is not None), default=None)

    def _cancel(self) -> None:
        if self._playing is not None:
            self._playing.cancel()

    def _count(self, _: Episode) -> None:
        self._done += 1
        self._control.progress(self._what, self._done, self._total)


def check_trainable(engine: Engine, recipe: Recipe) -> None:
    """Raise `ConfigError` if nothing can be trained through the user's engine, with what it lacks."""
    able = engine.capabilities
    lacking = [
        what
        for what, has in (
            ("token ids", able.token_ids),
            ("log-probabilities of the sampling distribution", able.logprobs),
            ("weight updates", able.weight_updates),
        )
        if not has
    ]
    if lacking and recipe.engine is not None:
        message = f"{recipe.engine.candidate.blame} gives no {' and no '.join(lacking)}, so nothing can be trained through it"
        raise ConfigError([Problem(key="astuner.rollout.name", message=message, suggestion="auto")])
