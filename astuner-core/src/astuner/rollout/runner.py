"""Runs groups of episodes: concurrency, time limits, retries, the barrier before the judge, and what is stored when."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from astuner.errors import RunFailed
from astuner.protocols import EpisodeIdentity, EpisodeStore, Tracked
from astuner.rollout.identity import derive_seed, episode_id
from astuner.rollout.isolation import Executor, InProcess, InThread, OnLoop, WorkflowCrashed
from astuner.rollout.json_values import as_json
from astuner.rollout.judging import judge_group
from astuner.rollout.recipe import Parts
from astuner.rollout.sample_limit import limit_samples
from astuner.rollout.watchdog import LoopWatchdog
from astuner.schema import Call, Episode, Failure, Group, Sampling, Split, Task, Unjudged, WorkflowOutput, WorkflowTask

if TYPE_CHECKING:
    from astuner.gateway import EpisodeRecorder, Gateway
    from astuner.protocols import RunInfo

JUDGE_TIMEOUT_S = 600.0


@frozen(kw_only=True)
class Round:
    """What one call of the runner is about."""

    step: int
    split: Split
    repeats: int
    sampling: Sampling


class RolloutRunner:
    """Plays the episodes of a step. Lives in one event loop, with one gateway."""

    def __init__(
        self,
        *,
        parts: Parts,
        gateway: Gateway,
        run_info: RunInfo,
        store: EpisodeStore,
        notify: Callable[[str], None],
        on_episode: Callable[[Episode], None] = lambda episode: None,
    ) -> None:
        """`notify` hears what a user should read; `on_episode` hears of each finished episode, in this loop."""
        self._parts, self._gateway, self._run_info, self._store = parts, gateway, run_info, store
        self._config = run_info.config.rollout
        self._notify, self._on_episode = notify, on_episode
        self._slots = asyncio.Semaphore(self._config.max_env_worker)
        self._executor = self._make_executor()
        self._watchdog = LoopWatchdog(notify)
        self._told: set[str] = set()

    def start(self) -> None:
        """Begin to watch the running loop."""
        self._watchdog.start()

    def close(self) -> None:
        """End workers and watch."""
        self._watchdog.stop()
        self._executor.close()

    async def run(self, tasks: Sequence[Task], round_: Round) -> list[Group]:
        """Play `repeats` episodes of each task and return the judged groups, in the order of the tasks.

        Episodes and verdicts that an earlier attempt of the run has stored are taken from there. Cancelling keeps what is
        finished.
        """
        try:
            async with asyncio.TaskGroup() as crowd:
                groups = [crowd.create_task(self._group(task, round_)) for task in tasks]
        except BaseExceptionGroup as several:
            raise _first(several) from several
        judged = [group.result() for group in groups]
        check_failure_budget(judged, self._config.failure_budget)
        return judged

    async def _group(self, task: Task, round_: Round) -> Group:
        async with asyncio.TaskGroup() as crowd:
            siblings = [crowd.create_task(self._episode(task, round_, repeat)) for repeat in range(round_.repeats)]
        group = Group(task=task, step=round_.step, split=round_.split, episodes=tuple(s.result() for s in siblings))
        if all(e.verdict is not None for e in group.episodes if e.completed):
            return group
        # The barrier is behind us and no slot is held: a slow judge keeps no episode from running.
        judged = await judge_group(group, self._parts.judge, timeout_s=JUDGE_TIMEOUT_S)
        self._store.add_verdicts(judged)
        return judged

    async def _episode(self, task: Task, round_: Round, repeat: int) -> Episode:
        identity = episode_id(round_.split, round_.step, task.task_id, repeat)
        known = self._store.recall(identity)
        if known is None:
            known = await self._play(Episode(id=identity, task=task, step=round_.step, repeat=repeat, split=round_.split), round_)
            self._store.add_episode(known)
        self._on_episode(known)
        return known

    async def _play(self, blank: Episode, round_: Round) -> Episode:
        failures: list[Failure] = []
        for attempt in range(self._config.max_retries + 1):
            async with self._slots:
                episode = await self._attempt(blank, round_, attempt)
            if episode.completed:
                return evolve(episode, failures=tuple(failures))
            last = evolve(episode.failures[-1], attempt=attempt, retried=attempt < self._config.max_retries)
            failures.append(last)
        return evolve(episode, failures=tuple(failures))

    async def _attempt(self, blank: Episode, round_: Round, attempt: int) -> Episode:
        from astuner.gateway import EpisodeSpec

        task, config = blank.task, self._config
        recorder = self._gateway.open_episode(
            EpisodeSpec(
                episode_id=blank.id,
                seed=derive_seed(config.seed if config.seed is not None else self._run_info.seed, blank.id, attempt),
                sampling=round_.sampling,
                max_model_len=config.max_model_len,
                max_prompt_length=self._run_info.config.data.max_prompt_length,
                max_response_length=self._run_info.config.data.max_response_length,
                disable_tools=config.agentscope_disable_toolcalls,
                trainable_targets=self._parts.trainable_targets,
                max_calls=config.multi_turn.max_steps,
                llm_timeout_s=config.llm_timeout_s,
            )
        )
        workflow_task = WorkflowTask(
            task=task,
            task_id=task.task_id,
            env_type=task.env_type,
            episode_id=blank.id,
            repeat=blank.repeat,
            step=blank.step,
            split=blank.split,
            attempt=attempt,
        )
        began = time.perf_counter()
        output, failure = None, None
        try:
            output = await self._execute(workflow_task, recorder)
        except _EpisodeTimeout:
            failure = Failure(reason="timeout", detail=f"over rollout.episode_timeout_s = {config.episode_timeout_s:g} s")
        except WorkflowCrashed as error:
            failure = Failure(reason="context_full" if recorder.overflow else "workflow_error", detail=str(error))
        except Exception as error:  # noqa: BLE001 - the boundary for workflows: a bad episode is data, not a crash
            reason = "context_full" if recorder.overflow else "workflow_error"
            failure = Failure(reason=reason, detail=f"{type(error).__name__}: {error}{_place(error)}")
        finally:
            await recorder.close()
        for text in recorder.notices:
            self._tell_once(text)
        calls = recorder.calls
        tracked = self._track(calls, blank) if output is not None else _untracked(calls)
        episode = evolve(
            blank,
            output=output,
            calls=calls,
            samples=tuple(tracked.samples),
            untrained=dict(tracked.untrained),
            failures=(failure,) if failure else (),
            duration_s=time.perf_counter() - began,
        )
        return await self._observed(episode)

    async def _execute(self, workflow_task: WorkflowTask, recorder: EpisodeRecorder) -> WorkflowOutput:
        try:
            async with asyncio.timeout(self._config.episode_timeout_s) as limit:
                output = await self._executor.run(workflow_task, recorder.tuner)
        except TimeoutError as error:
            # A workflow may raise a TimeoutError of its own; only the limit's is ours.
            if limit.expired():
                raise _EpisodeTimeout from error
            raise
        if not isinstance(output, WorkflowOutput):
            raise TypeError(f"the workflow returned {output!r}; it must return a WorkflowOutput")
        metadata, changed = as_json(output.metadata)
        if changed:
            self._tell_once(f"WorkflowOutput.metadata[{changed[0]!r}] is no JSON value: judges and the run store get its text")
        return evolve(output, metadata=metadata)

    async def _observed(self, episode: Episode) -> Episode:
        judge = self._parts.judge
        if judge is None or not episode.completed:
            return episode
        try:
            async with asyncio.timeout(JUDGE_TIMEOUT_S):
                return evolve(episode, observations=dict(await judge.observe(episode, None)))
        except Exception as error:  # noqa: BLE001 - the boundary for judges: their failure is data, never a score
            return episode.judged(Unjudged(reason="judge_error", detail=f"observe: {type(error).__name__}: {error}"))

    def _track(self, calls: Sequence[Call], episode: Episode) -> Tracked:
        identity = EpisodeIdentity(episode_id=episode.id, task_id=episode.task.task_id, repeat=episode.repeat)
        return limit_samples(self._parts.make_tracker().samples(calls, identity), self._config.multi_turn.max_sample_per_task)

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._notify(text)

    def _make_executor(self) -> Executor:
        match self._config.isolation:
            case "thread":
                return InThread(self._parts.make_workflow, self._config.max_env_worker)
            case "process":
                return InProcess(self._parts.workflow_target, self._run_info.config_dir, self._config.max_env_worker)
            case _:
                return OnLoop(self._parts.make_workflow)


def check_failure_budget(groups: Sequence[Group], budget: float) -> None:
    """Raise `RunFailed`, with the reasons counted, when a larger share of the episodes than `budget` has no reward."""
    episodes = [episode for group in groups for episode in group.episodes]
    lost = [episode for episode in episodes if episode.reward is None]
    if not episodes or len(lost) / len(episodes) <= budget:
        return
    reasons = Counter(_why(episode) for episode in lost)
    counted = "\n".join(f"  {count} x {reason}" for reason, count in reasons.most_common(5))
    raise RunFailed(
        f"{len(lost)} of {len(episodes)} episodes of step {groups[0].step} ({groups[0].split}) have no reward, "
        f"more than rollout.failure_budget = {budget:g} allows:\n{counted}"
    )


def _why(episode: Episode) -> str:
    if episode.failures and not episode.completed:
        return f"{episode.failures[-1].reason}: {episode.failures[-1].detail}"
    return f"{episode.verdict.reason}: {episode.verdict.detail}" if isinstance(episode.verdict, Unjudged) else "no verdict"


class _EpisodeTimeout(Exception):
    """The episode's time limit passed."""


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = several
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _untracked(calls: Sequence[Call]) -> Tracked:
    """Everything sampled in a failed episode is lost, and counted."""
    lost = sum(len(call.output_ids) for call in calls)
    return Tracked(samples=(), untrained={"failed": lost} if lost else {})


def _place(error: BaseException) -> str:
    """Return ` (file:line)` of where the error was raised."""
    frame = error.__traceback__
    if frame is None:
        return ""
    while frame.tb_next is not None:
        frame = frame.tb_next
    return f" ({frame.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.tb_lineno})"
