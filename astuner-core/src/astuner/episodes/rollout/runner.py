"""Runs groups of episodes: concurrency, time limits, retries, the barrier before the judge, and storing results."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from astuner.breakpoints.stopping import expects_stops, name_place
from astuner.contract.errors import FailureBudgetExceeded
from astuner.contract.protocols import EpisodeStore, Workflow
from astuner.contract.schema import GREEDY, Episode, Failure, Group, Sampling, Split, Task, Unjudged
from astuner.contract.user_values.changes import ChangeCounts
from astuner.episodes.judging.group_judging import GIVEN_NO_REWARD, find_absent_agents, judge_group
from astuner.episodes.rollout.different_prompts import describe_different_prompts
from astuner.episodes.rollout.episode_attempt import EpisodeAttempt, RolloutTools
from astuner.episodes.rollout.episode_failures import OWN, SURROUNDINGS, describe_rewarding_failures
from astuner.episodes.rollout.isolation import Executor, InProcess, InThread, OnLoop
from astuner.episodes.rollout.judge_models import JudgeModels
from astuner.episodes.rollout.recipe import Parts
from astuner.episodes.rollout.rollout_notices import RolloutNotices
from astuner.episodes.rollout.sample_limit import SampleLimit
from astuner.episodes.rollout.watchdog import LoopWatchdog

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo
    from astuner.episodes.rollout.environments.loop_factory import LoopFactory
    from astuner.model.gateway import Gateway, Rewriter
    from astuner.model.rendering import TemplateRenderer


@frozen(kw_only=True)
class Round:
    """The settings of one call of the runner."""

    step: int
    split: Split
    repeats: int
    sampling: Sampling
    rewriter: Rewriter | None = None
    """It reaches other processes pickled."""
    greedy: bool = False
    """Whether each task has one more episode, at temperature 0: `Group.greedy`."""

    @property
    def places(self) -> Sequence[int]:
        """The `repeat` of each episode of a task."""
        return [*range(self.repeats), *([GREEDY] if self.greedy else [])]


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
        self._judge, self._store, self._config = parts.judge, store, run_info.config.rollout
        self._on_episode, self._on_group = on_episode, on_group
        self._notices = RolloutNotices(notify)
        self._slots = asyncio.Semaphore(self._config.max_env_worker)
        self._watchdog = LoopWatchdog(notify)
        self._judge_models = JudgeModels(gateway, run_info)
        # Time limits and the watchdog are off while a debugger may be attached.
        self._breakpoints_on = expects_stops()
        self._tools = RolloutTools(
            parts=parts,
            gateway=gateway,
            run_info=run_info,
            executor=_make_executor(parts, run_info),
            loops=_make_loop_factory(parts, run_info, renderer, engine_max_model_len),
            notices=self._notices,
            limit=SampleLimit(self._config.multi_turn.max_sample_per_task),
            changes=ChangeCounts(),
            judge_timeout_s=None if self._breakpoints_on else run_info.config.task_judge.timeout_s,
        )

    def start(self) -> None:
        """Start watching the running loop."""
        if not self._breakpoints_on:
            self._watchdog.start()

    def close(self) -> None:
        """Stop the workers and the watchdog."""
        self._watchdog.stop()
        self._tools.executor.close()
        self._notices.summarise_abandoned()

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
        for text in (*self._tools.limit.take_notices(), *self._tools.changes.take_notices()):
            self._notices.show(text)
        for key, text in (describe_rewarding_failures(judged) | describe_different_prompts(judged)).items():
            self._notices.show_once(text, key)
        check_failure_budget(judged, self._config.failure_budget)
        return judged

    async def _judge_group(self, task: Task, round_: Round) -> Group:
        group = await self._play_group(task, round_)
        self._on_group(group)
        return group

    async def _play_group(self, task: Task, round_: Round) -> Group:
        async with asyncio.TaskGroup() as children:
            siblings = [children.create_task(self._get_episode(task, round_, repeat)) for repeat in round_.places]
        blank = Group(task=task, step=round_.step, split=round_.split, episodes=())
        group = blank.with_played(sibling.result() for sibling in siblings)
        if all(e.verdict is not None for e in group.played if e.completed):
            return group
        # The barrier has passed and no slot is held: a slow judge blocks no episode.
        with name_place(f"the judge, on {group.key}"), self._judge_models.offer():
            timeout_s, worth = self._tools.judge_timeout_s, self._config.failure_rewards.judge_error
            judged = await judge_group(group, self._judge, timeout_s=timeout_s, failure_reward=worth)
        for text in find_absent_agents(judged):
            self._notices.show_once(text)
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
        sampling = evolve(round_.sampling, temperature=0.0) if blank.repeat == GREEDY else round_.sampling
        for attempt in range(self._config.max_retries + 1):
            async with self._slots, AsyncExitStack() as lives:
                episode = await EpisodeAttempt(self._tools, blank, sampling, attempt, round_.rewriter).play(lives)
            if episode.completed:
                return evolve(episode, failures=tuple(failures))
            failure = episode.failures[-1]
            retried = failure.reason in SURROUNDINGS and attempt < self._config.max_retries
            failures.append(evolve(failure, attempt=attempt, retried=retried))
            if not retried:
                break
        return evolve(episode, failures=tuple(failures))


def make_episode_id(split: Split, step: int, task_id: str, repeat: int) -> str:
    """Return the id of an episode, unique in its run and the same in every attempt."""
    return f"{split}/{step}/{task_id}/{'greedy' if repeat == GREEDY else repeat}"


def check_failure_budget(groups: Sequence[Group], budget: float) -> None:
    """Raise `FailureBudgetExceeded`, with the reasons counted, if a larger share of the episodes than `budget` has no reward."""
    episodes = [episode for group in groups for episode in group.played]
    lost = [episode for episode in episodes if episode.reward is None]
    if not episodes or len(lost) / len(episodes) <= budget:
        return
    from astuner.episodes.rollout.loss_summary import count_causes

    counted = "\n".join(f"  {count} x {example}" for count, example in count_causes(lost))
    retries = Counter(failure.reason for episode in episodes for failure in episode.failures if failure.retried)
    counted += "".join(f"\n  played again: {count} x {reason}" for reason, count in retries.most_common())
    own = sorted({e.failures[-1].reason for e in lost if not e.completed and e.failures} & OWN)
    own += ["judge_error"] if any(isinstance(e.verdict, Unjudged) and e.verdict.by_answer for e in lost) else []
    counted += "".join(f"\nTo count such an episode as a failure of the model, set rollout.failure_rewards.{o}: 0" for o in own)
    raise FailureBudgetExceeded(
        f"{len(lost)} of {len(episodes)} episodes of step {groups[0].step} ({groups[0].split}) have no reward, "
        f"more than rollout.failure_budget = {budget:g} allows:\n{counted}\n"
        "Once the cause is mended, continue with --resume: these episodes are played again, or judged again if the judge failed",
        split=groups[0].split,
        lost=[episode.id for episode in lost if not _is_judges_failure(episode)],
        # A judge that compares siblings sees other ones next time.
        rejudged=[episode.id for group in groups for episode in group.played if any(e.reward is None for e in group.played)],
    )


def _is_judges_failure(episode: Episode) -> bool:
    """Whether the workflow did its part, and only the judge did not."""
    return episode.completed and isinstance(episode.verdict, Unjudged) and episode.verdict.reason not in GIVEN_NO_REWARD


def _make_loop_factory(
    parts: Parts, run_info: RunInfo, renderer: TemplateRenderer | None, engine_max_model_len: int | None
) -> LoopFactory | None:
    if parts.make_workflow is not None:
        return None
    from astuner.episodes.rollout.environments.loop_factory import LoopFactory

    gives_reward = parts.judge is None
    return LoopFactory(run_info, renderer=renderer, engine_max_model_len=engine_max_model_len, gives_reward=gives_reward)


def _make_executor(parts: Parts, run_info: RunInfo) -> Executor:
    make, config = parts.make_workflow or _refuse_without_environment, run_info.config.rollout
    match config.isolation:
        case "thread":
            return InThread(make, blocking=parts.workflow_blocks)
        case "process":
            return InProcess(parts.workflow_target, run_info.config_dir, config.max_env_worker, run_info)
        case _:
            return InThread(make, blocking=True) if parts.workflow_blocks else OnLoop(make)


def _refuse_without_environment() -> Workflow:
    from astuner.episodes.rollout.environments.guarded_environment import EnvironmentFailed

    raise EnvironmentFailed("the task has no environment, and there is no workflow to play it")


def _find_first_error(several: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = several
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
