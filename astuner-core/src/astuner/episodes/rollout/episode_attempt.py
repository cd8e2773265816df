"""One attempt to play an episode: open it, play it, settle how it ended, track what is trained, and let the judge observe it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from astuner.breakpoints.stopping import name_place
from astuner.contract.errors import AstunerError
from astuner.contract.protocols import EpisodeIdentity, RunInfo, Tracked, TrackerTraits, read_traits
from astuner.contract.schema import Call, Episode, Failure, Sampling, Unjudged, Verdict, WorkflowOutput
from astuner.contract.user_values.changes import ChangeCounts, make_mapping_plain
from astuner.episodes.containment.contained_call import CallTimeout, run_contained
from astuner.episodes.containment.endings import describe_raised, is_requested
from astuner.episodes.containment.user_code import UserCode
from astuner.episodes.judging.failures import collect_observations
from astuner.episodes.judging.simple_judges import make_workflow_task
from astuner.episodes.rollout.detection import EpisodeEnded, Watch, abnormal_verdict
from astuner.episodes.rollout.episode_failures import (
    FirstMessagesTooLong,
    classify_environment_error,
    classify_error,
    count_attempt,
    make_failure,
    make_failure_verdict,
)
from astuner.episodes.rollout.isolation import Executor, OnLoop, WorkflowCrashed
from astuner.episodes.rollout.permission_stop import TOPIC, describe_permission_stop
from astuner.episodes.rollout.recipe import Parts
from astuner.episodes.rollout.rollout_notices import RolloutNotices
from astuner.episodes.rollout.sample_limit import SampleLimit
from astuner.model.gateway.recording.call_seeds import derive_seed

if TYPE_CHECKING:
    from astuner.episodes.rollout.environments.living_environment import LivingEnvironment
    from astuner.episodes.rollout.environments.loop_factory import LoopFactory
    from astuner.model.gateway import EpisodeSpec, Gateway, Rewriter

FIRST_ATTEMPT = 0
NOTHING_TRACKED = Tracked(samples=(), untrained={})


@frozen(kw_only=True)
class RolloutTools:
    """What all attempts of a rollout process share."""

    parts: Parts
    gateway: Gateway
    run_info: RunInfo
    executor: Executor
    loops: LoopFactory | None
    """None: the workflow leads."""
    notices: RolloutNotices
    limit: SampleLimit
    changes: ChangeCounts
    judge_timeout_s: float | None


@frozen
class Ending:
    """How an attempt ended, and what is trained of it."""

    output: WorkflowOutput | None
    failure: Failure | None = None
    verdict: Verdict | None = None
    """What the failure is worth: no judge sees it."""
    tracked: Tracked = NOTHING_TRACKED

    @property
    def trains(self) -> bool:
        """Whether what was sampled is trained."""
        return self.failure is None or self.verdict is not None


class EpisodeAttempt:
    """One attempt to play one episode."""

    def __init__(
        self, tools: RolloutTools, blank: Episode, sampling: Sampling, attempt: int, rewriter: Rewriter | None = None
    ) -> None:
        """Open the episode: `blank` without a result, `attempt` counting from 0."""
        self._tools, self._config, self._blank = tools, tools.run_info.config.rollout, blank
        self._tracker = tools.parts.make_tracker()
        self._owner = UserCode(f"the episode {blank.id}", report=tools.notices.count_abandoned)
        terminates, notify = self._config.agent_madness_termination, tools.notices.show_once
        self._watch = Watch(tools.parts.detectors, terminates=terminates, notify=notify)
        self._recorder = tools.gateway.open_episode(self._make_spec(sampling, rewriter))
        self._task = evolve(make_workflow_task(blank, attempt=attempt), settings=tools.run_info.config.workflow)
        self._began = time.perf_counter()
        self._living: LivingEnvironment | None = None

    async def play(self, lives: AsyncExitStack) -> Episode:
        """Play it; `lives` closes the environment when the judge has seen it."""
        try:
            ending = await self._play_workflow(lives)
        finally:
            await self._recorder.close()
        ending = self._settle(ending)
        ending = self._track(ending)
        return await self._observe(ending)

    async def _play_workflow(self, lives: AsyncExitStack) -> Ending:
        parts = self._tools.parts
        try:
            if parts.environments is not None:
                self._living = await parts.environments.enter(self._task, lives, self._tools.notices.show_once, self._owner)
            output = await self._execute()
        except EpisodeEnded:
            # What was sampled so far is trained, with its reward.
            return Ending(WorkflowOutput())
        except Exception as error:  # noqa: BLE001 - the boundary for workflows: a bad episode is data, not a crash
            return Ending(None, self._explain(error))
        if parts.sandboxes is not None and (reason := self._recorder.failures.reason) is not None:
            return Ending(None, Failure(reason=reason, detail="the program could not go on: its last model call failed"))
        return Ending(output)

    async def _execute(self) -> WorkflowOutput:
        task, executor, tools = self._task, self._tools.executor, self._tools
        if (living := self._living) is not None:
            task = evolve(task, gym_env=living.facade)
            if tools.loops is not None:
                executor = OnLoop(partial(tools.loops.make, living, self._tracker))
        code = UserCode(f"the workflow of {task.episode_id}", report=tools.notices.count_abandoned, parent=self._owner)
        playing = partial(executor.run, task, self._recorder.tuner)
        with name_place(f"episode {task.episode_id}"):
            running = run_contained(playing, code, timeout_s=self._config.episode_timeout_s)
            checked = await self._watch.unless_ended(running)
        tools.changes.add(checked.changes)
        return checked.output

    def _explain(self, error: Exception) -> Failure:
        from astuner.episodes.rollout.environments.guarded_environment import EnvironmentFailed

        of_calls, living = self._recorder.failures.reason, self._living
        match error:
            case CallTimeout():
                # Without an engine, clients send requests again until the time is over.
                reason = "engine_lost" if of_calls == "engine_lost" else "timeout"
                limit = f"rollout.episode_timeout_s = {self._config.episode_timeout_s:g} s"
                return Failure(reason=reason, detail=f"over {limit}{error.place}")
            case EnvironmentFailed():
                return make_failure(classify_environment_error(error, method=error.after), error, str(error))
            case FirstMessagesTooLong():
                return Failure(reason="context_full", detail=str(error))
            case WorkflowCrashed():
                reason = classify_error(error, of_calls=of_calls, in_worker=error.surroundings)
                return make_failure(reason, error, str(error), at=error.raised)
        detail = describe_raised(error)
        if living is not None and (method := living.find_failed_method(error)):
            return make_failure(classify_environment_error(error, method=method), error, f"{living.blame}: {detail}")
        return make_failure(classify_error(error, of_calls=of_calls), error, detail)

    def _settle(self, ending: Ending) -> Ending:
        """Show what the calls had to say, and look up what a failure is worth."""
        for text in self._recorder.notices:
            self._tools.notices.show_once(text)
        if (stop := describe_permission_stop(ending.output, self._recorder.calls)) is not None:
            self._tools.notices.show_once(stop, TOPIC)
        if ending.failure is None:
            return ending
        return evolve(ending, verdict=make_failure_verdict(ending.failure.reason, self._config.failure_rewards))

    def _track(self, ending: Ending) -> Ending:
        """Read the samples off the calls; a tracker that raises fails the episode."""
        tools, calls = self._tools, self._recorder.calls
        if not ending.trains:
            return evolve(ending, tracked=_count_as_failed(calls))
        identity = EpisodeIdentity(episode_id=self._blank.id, task_id=self._blank.task.task_id, repeat=self._blank.repeat)
        try:
            tracked = self._tracker.samples(calls, identity)
        except BaseException as error:
            if isinstance(error, AstunerError) or is_requested(error):
                raise
            failure = make_failure("tracker_error", error, f"the context tracker raised {describe_raised(error)}")
            return Ending(None, failure, tracked=_count_as_failed(calls))
        for topic, text in tracked.notices.items():
            tools.notices.show_once(text, topic)
        tracked = tools.limit.apply(tracked, derive_seed(tools.run_info.seed, self._blank.id, "samples"))
        if tools.run_info.config.trainer_common.algorithm.overlong_filter:
            from astuner.episodes.rollout.overlong_filter import filter_overlong

            tracked = filter_overlong(tracked, calls)
        return evolve(ending, tracked=tracked)

    async def _observe(self, ending: Ending) -> Episode:
        """Return the episode, with what the judge observes of its environment if it completed."""
        episode, judge, living = self._make_episode(ending), self._tools.parts.judge, self._living
        if ending.trains and episode.abnormal:
            return episode.with_verdict(abnormal_verdict(episode.findings, self._config.agent_madness_reward))
        if judge is None or not episode.completed:
            return episode
        with name_place(f"the judge, on {episode.id}"):
            seen = await collect_observations(judge, episode, living and living.scored, self._tools.judge_timeout_s)
        if isinstance(seen, Unjudged):
            return episode.with_verdict(seen.with_worth(self._config.failure_rewards.judge_error))
        observations, changes = make_mapping_plain(seen, "the judge's observation")
        self._tools.changes.add(changes)
        return evolve(episode, observations=observations)

    def _make_episode(self, ending: Ending) -> Episode:
        calls = self._recorder.calls
        return evolve(
            self._blank,
            output=ending.output,
            calls=calls,
            samples=tuple(ending.tracked.samples),
            untrained=dict(ending.tracked.untrained),
            failures=() if ending.failure is None else (count_attempt(ending.failure, calls),),
            verdict=ending.verdict,
            findings=self._watch.findings,
            duration_s=time.perf_counter() - self._began,
        )

    def _make_spec(self, sampling: Sampling, rewriter: Rewriter | None) -> EpisodeSpec:
        from astuner.model.gateway import EpisodeSpec

        config, run_info, parts = self._config, self._tools.run_info, self._tools.parts
        leads = parts.make_workflow is None
        views = leads and read_traits(self._tracker, TrackerTraits).manages_context
        return EpisodeSpec(
            episode_id=self._blank.id,
            # Not the attempt's: what failed is played again as it was, and not replaced by something luckier.
            seed=derive_seed(config.seed if config.seed is not None else run_info.seed, self._blank.id, FIRST_ATTEMPT),
            sampling=sampling,
            rewriter=rewriter,
            max_model_len=config.max_model_len,
            # A view that starts over is not the first prompt of an episode; the loop checks the first one itself.
            max_prompt_length=None if views else run_info.config.data.max_prompt_length,
            max_response_length=run_info.config.data.max_response_length,
            disable_tools=config.agentscope_disable_toolcalls,
            trainable_targets=parts.trainable_targets,
            constraints=config.constraints,
            auxiliary_models=config.auxiliary_models,
            adapters=tuple(run_info.config.model.adapters),
            opponents=tuple(run_info.config.model.opponents),
            # The loop counts its steps itself, and a tracker's calls between them are not steps.
            max_steps=None if leads else config.multi_turn.max_steps,
            names_changes=not views,
            llm_timeout_s=config.llm_timeout_s,
            examine=self._watch.examine if parts.detectors else None,
        )


def _count_as_failed(calls: Sequence[Call]) -> Tracked:
    """Count everything sampled in a failed episode as untrained."""
    lost = sum(len(call.output_ids) for call in calls)
    return Tracked(samples=(), untrained={"failed": lost} if lost else {})
