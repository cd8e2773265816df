"""A replay from beginning to end: the stored episodes of a run, scored by the judges of another configuration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack

from astuner.contract.errors import Interrupted, UsageError
from astuner.contract.protocols import EstimatorTraits, Judge, RunInfo, read_traits
from astuner.contract.schema import GREEDY, Group, Split
from astuner.episodes.builtin.loggers.jsonl_logger import JsonlLogger
from astuner.episodes.containment.guarded_loop import GuardedLoop, end_tasks_of_code
from astuner.episodes.containment.leftovers import end_leftovers
from astuner.episodes.containment.process_exit import refuse_exits
from astuner.episodes.rollout.garbage_collector import relax_collector
from astuner.episodes.rollout.host import close_judge
from astuner.episodes.rollout.recipe import make_judges
from astuner.episodes.rollout.secret_free_store import SecretFreeStore
from astuner.runs.inspection.run import Run
from astuner.runs.store.episode_store import SPLITS, EpisodeFiles
from astuner.settings.plugins.component import Component
from astuner.settings.plugins.hooks import Hooks
from astuner.shared.clients.llm_budget import Budget, Limits, Usage, share_budgets
from astuner_tools.replays.limits import describe_limits
from astuner_tools.replays.observations import StoredObservations
from astuner_tools.replays.replay_directory import choose_directory, open_replay
from astuner_tools.replays.replay_request import ReplayRequest
from astuner_tools.replays.report import ReplayReport, find_over_budget
from astuner_tools.replays.scoring import Scoring
from astuner_tools.replays.scoring_choice import ScoringChoice, choose_scoring, list_stored_specs
from astuner_tools.replays.split_replay import SplitReplay
from astuner_tools.replays.stored_groups import StoredGroups
from astuner_tools.replays.trained_signal import Advantages
from astuner_tools.replays.window import map_in_order

Progress = Callable[[int, int], None]


def replay_run(
    request: ReplayRequest,
    *,
    notify: Callable[[str], None] = lambda text: None,
    progress: Progress = lambda done, total: None,
    stopped: Callable[[], bool] = lambda: False,
) -> ReplayReport:
    """Score the stored episodes of a run again, write them with their new verdicts, and return what changed.

    `notify` gets messages as they come, `progress` how many groups are done. `stopped` is asked after each group, and raises
    `Interrupted`. The run is only read, and may be running.
    """
    run = request.run
    stored = [StoredGroups(run, one, request.step) for one in _choose_splits(run, request.split, request.step)]
    choice = choose_scoring(request.conf, request.overrides, request.judge)
    path = choose_directory(run, choice.loaded.config.experiment_name, request.out)
    told: dict[str, None] = {}

    def report(text: str) -> None:
        text = choice.loaded.secrets.hide(text)
        if text not in told:
            told[text] = None
            notify(text)

    with ExitStack() as stack:
        stack.enter_context(choice.loaded.secrets.hide_in_errors())
        directory = stack.enter_context(open_replay(path, run, choice))
        files = EpisodeFiles(directory.episodes, report=report)
        stack.callback(files.close)
        metrics = JsonlLogger(directory.metrics)
        stack.callback(metrics.close)
        budgets = _Budgets()
        stack.enter_context(share_budgets(budgets.make))
        for text in describe_limits(run, choice):
            report(text)
        replay = _Replay(run, choice, choice.describe_run(path), report)
        splits = [
            SplitReplay(
                one.split,
                stored=replay.stored_advantages,
                new=replay.new_advantages,
                wanted=run.config.get("data", {}).get("train_batch_size") or one.most_in_a_step,
                store=SecretFreeStore(files, replay.run_info),
                metrics=metrics,
            )
            for one in stored
        ]

        def count(done: int, total: int) -> None:
            progress(done, total)
            if stopped() and done < total:
                raise Interrupted(f"stopped after {done} of {total} groups")

        began = time.perf_counter()
        with asyncio.Runner(loop_factory=GuardedLoop) as runner:
            runner.run(replay.judge_all(list(zip(stored, splits, strict=True)), count))
        judging_s = time.perf_counter() - began
        found = tuple(one.finish() for one in splits)
        files.sync()
        replay.report_gaps(stored)
    return ReplayReport(
        run=run.path,
        directory=path,
        splits=found,
        usage=budgets.spent,
        over_budget=tuple(find_over_budget(found, replay.run_info.config.rollout.failure_budget)),
        judging_s=judging_s,
        notices=tuple(told),
    )


class _Budgets:
    """What the judges spend, each within its own limits."""

    def __init__(self) -> None:
        self._made: list[Budget] = []

    def make(self, limits: Limits) -> Budget:
        self._made.append(Budget(limits))
        return self._made[-1]

    @property
    def spent(self) -> Usage:
        return sum((budget.spent for budget in self._made), Usage())


class _Replay:
    """The parts of a replay that are alive."""

    def __init__(self, run: Run, choice: ScoringChoice, run_info: RunInfo, report: Callable[[str], None]) -> None:
        self.run_info, self._report = run_info, report
        hooks = Hooks(choice.catalog, on_listener_error=report, options=run_info.config.plugins.options)
        hooks.check_pending()
        self.new_advantages = _make_advantages(choice.estimator, run_info, hooks)
        then = choice.find_stored_estimator(run, run_info)
        if then is None:
            report(f"{run.path}: the run's own estimator is not known or not installed: the new one is used for both rewards")
        self.stored_advantages = self.new_advantages if then is None else _make_advantages(then[0], then[1], hooks)
        judges = make_judges(choice.judges, run_info, hooks)
        self._judge: Judge | None = hooks.make_reward(judges, run_info)
        is_single = len(judges) == 1 and self._judge is judges[0].judge
        stored_specs = list_stored_specs(run)
        self._observations = StoredObservations(judges, is_single=is_single, specs=choice.specs, stored_specs=stored_specs)
        self._scoring = Scoring(self._judge, self._observations, run_info)

    async def judge_all(self, splits: Sequence[tuple[StoredGroups, SplitReplay]], progress: Progress) -> None:
        """Score every group, as many at a time as the run did."""
        total, done = sum(len(stored) for stored, _ in splits), 0

        async def score(stored: Group) -> tuple[Group, Group]:
            return stored, await self._scoring.judge(self._scoring.prepare(stored))

        async with AsyncExitStack() as stack:
            stack.enter_context(end_leftovers(self._report))
            stack.enter_context(refuse_exits())
            if self._judge is not None:
                stack.push_async_callback(close_judge, self._judge, self._report)
            stack.push_async_callback(end_tasks_of_code)
            stack.enter_context(relax_collector())
            for stored, split in splits:

                def take(judged: tuple[Group, Group], split: SplitReplay = split) -> None:
                    nonlocal done
                    split.take(judged)
                    done += 1
                    progress(done, total)

                await map_in_order(stored.read(), score, take, at_once=stored.most_in_a_step)

    def report_gaps(self, stored: Sequence[StoredGroups]) -> None:
        """Report what was missing in the stored episodes."""
        for text in self._observations.describe_lacking():
            self._report(text)
        if count := self._scoring.without_samples:
            self._report(
                f"{count} failed episode(s) had no reward and get one now: the run has kept no samples of them, so what would "
                "have been trained lacks their tokens"
            )
        wants = read_traits(self.new_advantages.estimator, EstimatorTraits).wants_greedy
        if wants and not any(one.repeat == GREEDY for groups in stored for one in groups.index):
            self._report("the estimator compares with a greedy episode of each task, and the run has none: no group has signal")
        for one in stored:
            if lost := one.index.lost:
                self._report(f"{one.index.path}: {len(lost)} damaged and left out: {', '.join(lost[:3])}")


def _make_advantages(component: Component, run_info: RunInfo, hooks: Hooks) -> Advantages:
    algorithm = run_info.config.trainer_common.algorithm
    return Advantages(
        estimator=hooks.make_estimator(component.candidate, component.options, run_info),
        by_agent=algorithm.norm_adv_by_agent,
        filters=algorithm.filter_groups.enable,
    )


def _choose_splits(run: Run, split: Split | None, step: int | None) -> list[Split]:
    """Return the splits with episodes; raises `UsageError` if there are none."""
    if split is not None:
        return [split]
    if step is not None:
        return ["train"]
    found = [one for one in SPLITS if run.has_episodes(one)]
    if not found:
        raise UsageError(f"{run.directory.episodes}: no episodes are stored, so there is nothing to score again")
    return found
