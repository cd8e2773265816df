"""Runs groups of episodes: concurrency, time limits, retries, the barrier before the judge, and storing results."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from astuner.breakpoints.code_places import name_place
from astuner.breakpoints.stopping import expects_stops
from astuner.contract.errors import AstunerError, FailureBudgetExceeded
from astuner.contract.protocols import ContextPolicy, EpisodeIdentity, EpisodeStore, Tracked, Tracker, Workflow
from astuner.contract.schema import Call, Episode, Failure, Group, Sampling, Split, Task, Unjudged, WorkflowOutput, WorkflowTask
from astuner.contract.user_values.changes import ChangeCounts, make_mapping_plain
from astuner.episodes.containment.contained_call import CallTimeout, run_contained
from astuner.episodes.containment.endings import describe_raised, is_requested
from astuner.episodes.containment.user_code import UserCode
from astuner.episodes.judging.failures import collect_observations
from astuner.episodes.judging.group_judging import GIVEN_NO_REWARD, find_absent_agents, judge_group
from astuner.episodes.judging.simple_judges import make_workflow_task
from astuner.episodes.rollout.detection import EpisodeEnded, Watch, abnormal_verdict
from astuner.episodes.rollout.environments.environment_loop import FirstMessagesTooLong
from astuner.episodes.rollout.environments.guarded_environment import EnvironmentFailed
from astuner.episodes.rollout.environments.loop_factory import LoopFactory
from astuner.episodes.rollout.episode_failures import (
    OWN,
    SURROUNDINGS,
    classify_environment_error,
    classify_error,
    count_attempt,
    make_failure,
    make_failure_verdict,
)
from astuner.episodes.rollout.failure_worth import describe_rewarding_failures
from astuner.episodes.rollout.isolation import Executor, InProcess, InThread, OnLoop, WorkflowCrashed
from astuner.episodes.rollout.judge_models import JudgeModels
from astuner.episodes.rollout.overlong_filter import filter_overlong
from astuner.episodes.rollout.permission_stop import TOPIC, describe_permission_stop
from astuner.episodes.rollout.recipe import Parts
from astuner.episodes.rollout.sample_limit import SampleLimit
from astuner.episodes.rollout.seeds import derive_seed
from astuner.episodes.rollout.watchdog import LoopWatchdog

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo
    from astuner.episodes.rollout.environments.lifetime import LivingEnvironment
    from astuner.model.gateway import EpisodeRecorder, Gateway
    from astuner.model.rendering import TemplateRenderer

FIRST_ATTEMPT = 0


@frozen(kw_only=True)
class Round:
    """The settings of one call of the runner."""

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
        on_group: Callable[[Group], None] = lambda group: None,
        renderer: TemplateRenderer | None = None,
        engine_max_model_len: int | None = None,
    ) -> None:
        """`notify` gets messages for the user, `on_episode` each finished episode and `on_group` each judged group.

        The last two are called in this loop.
        `renderer` and `engine_max_model_len` are the gateway's and its engine's, for episodes in which the environment leads.
        """
        self._parts, self._gateway, self._run_info, self._store = parts, gateway, run_info, store
        self._config = run_info.config.rollout
        self._notify, self._on_episode, self._on_group = notify, on_episode, on_group
        self._slots = asyncio.Semaphore(self._config.max_env_worker)
        self._executor = self._make_executor()
        self._loops = LoopFactory(
            run_info, renderer=renderer, engine_max_model_len=engine_max_model_len, gives_reward=parts.judge is None
        )
        self._watchdog = LoopWatchdog(notify)
        self._judge_models = JudgeModels(gateway, run_info)
        self._notified: set[str] = set()
        self._abandoned: Counter[str] = Counter()
        self._limit = SampleLimit(self._config.multi_turn.max_sample_per_task)
        self._changes = ChangeCounts()
        # Time limits and the watchdog are off while a debugger may be attached.
        self._breakpoints_on = expects_stops()
        self._judge_timeout_s = None if self._breakpoints_on else run_info.config.task_judge.timeout_s

    def start(self) -> None:
        """Start watching the running loop."""
        if not self._breakpoints_on:
            self._watchdog.start()

    def close(self) -> None:
        """Stop the workers and the watchdog."""
        self._watchdog.stop()
        self._executor.close()
        if (total := self._abandoned.total()) > 1:
            places = ", ".join(f"{count} at {place}" for place, count in self._abandoned.most_common(5))
            self._notify(f"{total} pieces of users' code did not end when they were cancelled, and were abandoned: {places}")

    async def run(self, tasks: Sequence[Task], round_: Round) -> list[Group]:
        """Play `repeats` episodes of each task and return the judged groups, in the order of the tasks.

        Episodes and verdicts that an earlier attempt of the run has stored are reused. Cancelling keeps what is
        finished.
        """
        try:
            async with asyncio.TaskGroup() as children:
                groups = [children.create_task(self._judge_group(task, round_)) for task in tasks]
        except BaseExceptionGroup as several:
            raise _find_first_error(several) from several
        judged = [group.result() for group in groups]
        for text in (*self._limit.take_notices(), *self._changes.take_notices()):
            self._notify(text)
        for key, text in describe_rewarding_failures(judged).items():
            self._notify_once(text, key)
        check_failure_budget(judged, self._config.failure_budget)
        return judged

    async def _judge_group(self, task: Task, round_: Round) -> Group:
        group = await self._play_group(task, round_)
        self._on_group(group)
        return group

    async def _play_group(self, task: Task, round_: Round) -> Group:
        async with asyncio.TaskGroup() as children:
            siblings = [children.create_task(self._get_episode(task, round_, repeat)) for repeat in range(round_.repeats)]
        group = Group(task=task, step=round_.step, split=round_.split, episodes=tuple(s.result() for s in siblings))
        if all(e.verdict is not None for e in group.episodes if e.completed):
            return group
        # The barrier has passed and no slot is held: a slow judge blocks no episode.
        with name_place(f"the judge, on {group.key}"), self._judge_models.offer():
            judged = await judge_group(group, self._parts.judge, timeout_s=self._judge_timeout_s)
        for text in find_absent_agents(judged):
            self._notify_once(text)
        self._store.add_verdicts(judged)
        return judged

    async def _get_episode(self, task: Task, round_: Round, repeat: int) -> Episode:
        identity = make_episode_id(round_.split, round_.step, task.task_id, repeat)
        known = self._store.recall(identity)
        if known is None:
            known = await self._play(Episode(id=identity, task=task, step=round_.step, repeat=repeat, split=round_.split), round_)
            self._store.add_episode(known)
        self._on_episode(known)
        return known

    async def _play(self, blank: Episode, round_: Round) -> Episode:
        failures: list[Failure] = []
        for attempt in range(self._config.max_retries + 1):
            async with self._slots, AsyncExitStack() as lives:
                episode = await self._attempt(blank, round_, attempt, lives)
            if episode.completed:
                return evolve(episode, failures=tuple(failures))
            failure = episode.failures[-1]
            retried = failure.reason in SURROUNDINGS and attempt < self._config.max_retries
            failures.append(evolve(failure, attempt=attempt, retried=retried))
            if not retried:
                break
        return evolve(episode, failures=tuple(failures))

    async def _attempt(self, blank: Episode, round_: Round, attempt: int, lives: AsyncExitStack) -> Episode:
        """Play once; `lives` closes the environment when the judge has seen it."""
        from astuner.model.gateway import EpisodeSpec

        config = self._config
        leads, tracker = self._parts.make_workflow is None, self._parts.make_tracker()
        owner = UserCode(f"the episode {blank.id}", report=self._count_abandoned)
        views = leads and isinstance(tracker, ContextPolicy)
        detectors = self._parts.detectors
        watch = Watch(detectors, terminates=config.agent_madness_termination, notify=self._notify_once)
        recorder = self._gateway.open_episode(
            EpisodeSpec(
                episode_id=blank.id,
                # Not the attempt's: what failed is played again as it was, and not replaced by something luckier.
                seed=derive_seed(config.seed if config.seed is not None else self._run_info.seed, blank.id, FIRST_ATTEMPT),
                sampling=round_.sampling,
                max_model_len=config.max_model_len,
                # A view that starts over is not the first prompt of an episode; the loop checks the first one itself.
                max_prompt_length=None if views else self._run_info.config.data.max_prompt_length,
                max_response_length=self._run_info.config.data.max_response_length,
                disable_tools=config.agentscope_disable_toolcalls,
                trainable_targets=self._parts.trainable_targets,
                constraints=config.constraints,
                auxiliary_models=config.auxiliary_models,
                # The loop counts its steps itself, and a tracker's calls between them are not steps.
                max_steps=None if leads else config.multi_turn.max_steps,
                llm_timeout_s=config.llm_timeout_s,
                examine=watch.examine if detectors else None,
            )
        )
        workflow_task = evolve(make_workflow_task(blank, attempt=attempt), settings=self._run_info.config.workflow)
        began = time.perf_counter()
        output, failure, living = None, None, None
        try:
            if self._parts.environments is not None:
                living = await self._parts.environments.enter(workflow_task, lives, self._notify_once, owner)
            output = await self._execute(workflow_task, recorder, living, tracker, watch, owner)
            if self._parts.sandboxes is not None and (reason := recorder.failures.reason) is not None:
                output, failure = None, Failure(reason=reason, detail="the program could not go on: its last model call failed")
        except EpisodeEnded:
            # What was sampled so far is trained, with its reward.
            output = WorkflowOutput()
        except CallTimeout as over:
            # Without an engine, clients send requests again until the time is over.
            reason = "engine_lost" if recorder.failures.reason == "engine_lost" else "timeout"
            failure = Failure(
                reason=reason, detail=f"over rollout.episode_timeout_s = {config.episode_timeout_s:g} s{over.place}"
            )
        except EnvironmentFailed as error:
            failure = make_failure(classify_environment_error(error, method=error.after), error, str(error))
        except FirstMessagesTooLong as error:
            failure = Failure(reason="context_full", detail=str(error))
        except WorkflowCrashed as error:
            reason = classify_error(error, of_calls=recorder.failures.reason, in_worker=error.surroundings)
            failure = make_failure(reason, error, str(error), at=error.raised)
        except Exception as error:  # noqa: BLE001 - the boundary for workflows: a bad episode is data, not a crash
            detail = describe_raised(error)
            if living is not None and (method := living.find_failed_method(error)):
                reason = classify_environment_error(error, method=method)
                failure = make_failure(reason, error, f"{living.blame}: {detail}")
            else:
                failure = make_failure(classify_error(error, of_calls=recorder.failures.reason), error, detail)
        finally:
            await recorder.close()
        for text in recorder.notices:
            self._notify_once(text)
        calls = recorder.calls
        if (stop := describe_permission_stop(output, calls)) is not None:
            self._notify_once(stop, TOPIC)
        verdict = None if failure is None else make_failure_verdict(failure.reason, config.failure_rewards)
        trains = failure is None or verdict is not None
        try:
            tracked = self._track(tracker, calls, blank) if trains else _count_as_failed(calls)
        except _TrackerFailed as error:
            failure, output, verdict, trains = make_failure("tracker_error", error, str(error)), None, None, False
            tracked = _count_as_failed(calls)
        episode = evolve(
            blank,
            output=output,
            calls=calls,
            samples=tuple(tracked.samples),
            untrained=dict(tracked.untrained),
            failures=(count_attempt(failure, calls),) if failure else (),
            verdict=verdict,
            findings=watch.findings,
            duration_s=time.perf_counter() - began,
        )
        if trains and episode.abnormal:
            return episode.with_verdict(abnormal_verdict(episode.findings, config.agent_madness_reward))
        return await self._observe(episode, living, owner)

    async def _execute(
        self,
        workflow_task: WorkflowTask,
        recorder: EpisodeRecorder,
        living: LivingEnvironment | None,
        tracker: Tracker,
        watch: Watch,
        owner: UserCode,
    ) -> WorkflowOutput:
        executor = self._executor
        if living is not None:
            workflow_task = evolve(workflow_task, gym_env=living.facade)
            if self._parts.make_workflow is None:
                executor = OnLoop(partial(self._loops.make, living, tracker))
        code = UserCode(f"the workflow of {workflow_task.episode_id}", report=self._count_abandoned, parent=owner)
        playing = partial(executor.run, workflow_task, recorder.tuner)
        with name_place(f"episode {workflow_task.episode_id}"):
            checked = await watch.unless_ended(run_contained(playing, code, timeout_s=self._config.episode_timeout_s))
        self._changes.add(checked.changes)
        return checked.output

    async def _observe(self, episode: Episode, living: LivingEnvironment | None, owner: UserCode) -> Episode:
        judge = self._parts.judge
        if judge is None or not episode.completed:
            return episode
        with name_place(f"the judge, on {episode.id}"):
            seen = await collect_observations(judge, episode, living and living.scored, self._judge_timeout_s)
        if isinstance(seen, Unjudged):
            return episode.with_verdict(seen)
        observations, changes = make_mapping_plain(seen, "the judge's observation")
        self._changes.add(changes)
        return evolve(episode, observations=observations)

    def _track(self, tracker: Tracker, calls: Sequence[Call], episode: Episode) -> Tracked:
        identity = EpisodeIdentity(episode_id=episode.id, task_id=episode.task.task_id, repeat=episode.repeat)
        try:
            tracked = tracker.samples(calls, identity)
        except AstunerError:
            raise
        except BaseException as error:
            if is_requested(error):
                raise
            raise _TrackerFailed(f"the context tracker raised {describe_raised(error)}") from error
        for topic, text in tracked.notices.items():
            self._notify_once(text, topic)
        kept = self._limit.apply(tracked, derive_seed(self._run_info.seed, episode.id, "samples"))
        return filter_overlong(kept, calls) if self._run_info.config.trainer_common.algorithm.overlong_filter else kept

    def _notify_once(self, text: str, topic: str | None = None) -> None:
        if (topic or text) not in self._notified:
            self._notified.add(topic or text)
            self._notify(text)

    def _count_abandoned(self, code: UserCode, text: str) -> None:
        place = code.find_line() or "an unknown line"
        self._abandoned[place] += 1
        self._notify_once(text, f"abandoned at {place}")

    def _make_executor(self) -> Executor:
        make = self._parts.make_workflow or _refuse_without_environment
        match self._config.isolation:
            case "thread":
                return InThread(make, blocking=self._parts.workflow_blocks)
            case "process":
                info = self._run_info
                return InProcess(self._parts.workflow_target, info.config_dir, self._config.max_env_worker, info)
            case _:
                return InThread(make, blocking=True) if self._parts.workflow_blocks else OnLoop(make)


def make_episode_id(split: Split, step: int, task_id: str, repeat: int) -> str:
    """Return the id of an episode, unique in its run and the same in every attempt."""
    return f"{split}/{step}/{task_id}/{repeat}"


def check_failure_budget(groups: Sequence[Group], budget: float) -> None:
    """Raise `FailureBudgetExceeded`, with the reasons counted, if a larger share of the episodes than `budget` has no reward."""
    episodes = [episode for group in groups for episode in group.episodes]
    lost = [episode for episode in episodes if episode.reward is None]
    if not episodes or len(lost) / len(episodes) <= budget:
        return
    reasons = Counter(_describe_loss(episode) for episode in lost)
    counted = "\n".join(f"  {count} x {reason}" for reason, count in reasons.most_common(5))
    retries = Counter(failure.reason for episode in episodes for failure in episode.failures if failure.retried)
    counted += "".join(f"\n  played again: {count} x {reason}" for reason, count in retries.most_common())
    own = sorted({e.failures[-1].reason for e in lost if not e.completed and e.failures} & OWN)
    counted += "".join(f"\nTo count such an episode as a failure of the model, set rollout.failure_rewards.{o}: 0" for o in own)
    raise FailureBudgetExceeded(
        f"{len(lost)} of {len(episodes)} episodes of step {groups[0].step} ({groups[0].split}) have no reward, "
        f"more than rollout.failure_budget = {budget:g} allows:\n{counted}\n"
        "Once the cause is mended, continue with --resume: these episodes are played again, or judged again if the judge failed",
        split=groups[0].split,
        lost=[episode.id for episode in lost if not _is_judges_failure(episode)],
        # A judge that compares siblings sees other ones next time.
        rejudged=[episode.id for group in groups for episode in group.episodes if any(e.reward is None for e in group.episodes)],
    )


def _is_judges_failure(episode: Episode) -> bool:
    """Whether the workflow did its part, and only the judge did not."""
    return episode.completed and isinstance(episode.verdict, Unjudged) and episode.verdict.reason not in GIVEN_NO_REWARD


def _describe_loss(episode: Episode) -> str:
    if episode.failures and not episode.completed:
        return f"{episode.failures[-1].reason}: {episode.failures[-1].detail}"
    return f"{episode.verdict.reason}: {episode.verdict.detail}" if isinstance(episode.verdict, Unjudged) else "no verdict"


def _refuse_without_environment() -> Workflow:
    raise EnvironmentFailed("the task has no environment, and there is no workflow to play it")


class _TrackerFailed(Exception):
    """A context tracker raised."""


def _find_first_error(several: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = several
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _count_as_failed(calls: Sequence[Call]) -> Tracked:
    """Count everything sampled in a failed episode as untrained."""
    lost = sum(len(call.output_ids) for call in calls)
    return Tracked(samples=(), untrained={"failed": lost} if lost else {})
