"""The simple form of a judge: `compute_reward(workflow_task, workflow_output)`, or a function of these two or of `tune()`."""

from __future__ import annotations

import asyncio
import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from astuner.contract.errors import PluginError
from astuner.contract.plain_values import has_type, read_bool, read_number, read_text, show_value
from astuner.contract.protocols import Judge, JudgeTraits, has_methods, read_traits
from astuner.contract.schema import Episode, Group, Unjudged, Verdict, WorkflowOutput, WorkflowTask
from astuner.contract.user_values.outputs import find_numbers
from astuner.contract.user_values.verdicts import check_verdict
from astuner.episodes.containment.contained_call import CallTimeout, run_contained
from astuner.episodes.containment.endings import describe_raised
from astuner.episodes.containment.tracebacks import locate_error
from astuner.episodes.containment.user_code import UserCode
from astuner.episodes.judging.judge_threads import run_in_thread
from astuner.settings.config.auxiliary_models import AuxiliaryModel

ComputeReward = Callable[[WorkflowTask, WorkflowOutput], Any]

EXPECTED = "a float, (float, bool), a Verdict, or an object with `reward` and `metrics`, finite, is expected"


class PartwiseJudge(Judge):
    """A judge of several parts, each with its own time limit: one that hangs does not discard the verdicts of the others."""

    @abstractmethod
    async def judge_within(self, group: Group, timeout_s: float | None) -> Sequence[Verdict | Unjudged]:
        """Return the verdicts of `judge`; each part gets `timeout_s`, and parts may run one after the other."""

    async def observe_within(self, episode: Episode, environment: Any, timeout_s: float | None) -> Mapping[str, Any]:
        """Return what `observe` does; each part gets `timeout_s`."""
        async with asyncio.timeout(timeout_s):
            return await self.observe(episode, environment)

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        """Judge without a time limit."""
        return await self.judge_within(group, None)


def make_judge(judge: Any, *, blame: str | None = None, auxiliary_models: Mapping[str, AuxiliaryModel] | None = None) -> Judge:
    """Return a whole judge for a class, an object or a function that judges one episode; an `astuner.Judge` stays as it is.

    A function whose parameters are named `task` and `response` is called as `tune()` of AgentScope does, with the
    `auxiliary_models` if it names them. `blame` begins the message of a failure. Raises `PluginError` for anything else.
    """
    if isinstance(judge, type):
        judge = judge()
    if isinstance(judge, Judge):
        return judge
    if has_methods(judge, "observe", "judge"):
        return JudgeAdapter(judge)
    blame = blame or f"judge {getattr(judge, '__qualname__', type(judge).__qualname__)}"
    if inspect.isroutine(judge):
        from astuner.episodes.judging.tune_functions import TuneFunction, is_tune_function

        try:
            judge = TuneFunction(judge, auxiliary_models or {}) if is_tune_function(judge) else judge
        except TypeError as error:
            raise PluginError(f"{blame} {error}") from error
    simple = has_methods(judge, "compute_reward")
    compute_reward = judge.compute_reward if simple else judge if inspect.isroutine(judge) else None
    if compute_reward is None:
        raise PluginError(
            f"{blame} is {judge!r}; a judge is a subclass of astuner.Judge, a class with "
            "`compute_reward(self, workflow_task, workflow_output)`, or a function of these two"
        )
    return EpisodeJudge(compute_reward, blame=blame, owner=judge)


class JudgeAdapter(Judge):
    """Adapts an object that has the methods of a judge but is not one; its `close`, if it has one, may be sync."""

    def __init__(self, inner: Any) -> None:
        """Keep the user's object."""
        self.inner, self.traits = inner, read_traits(inner, JudgeTraits)

    async def observe(self, episode: Episode, environment: Any) -> Mapping[str, Any]:
        """Let it observe."""
        seen: Mapping[str, Any] = await self.inner.observe(episode, environment)
        return seen

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        """Let it judge."""
        verdicts: Sequence[Verdict | Unjudged] = await self.inner.judge(group)
        return verdicts

    async def close(self) -> None:
        """Let it release its resources."""
        await _close(self.inner)


class EpisodeJudge(PartwiseJudge):
    """Judges each episode on its own; a failure affects one episode."""

    traits = JudgeTraits(compares_siblings=False)

    def __init__(self, compute_reward: ComputeReward, *, blame: str, owner: Any = None) -> None:
        """Keep the user's function, which may be sync or async, and the object that it belongs to."""
        self._compute_reward = compute_reward
        self._owner = owner
        self._blame = blame

    async def judge_within(self, group: Group, timeout_s: float | None) -> Sequence[Verdict | Unjudged]:
        """Ask for every completed episode at once."""
        return await asyncio.gather(
            *(self._judge_episode(episode, timeout_s) for episode in group.episodes if episode.output is not None)
        )

    async def close(self) -> None:
        """Let the user's object release its resources."""
        await _close(self._owner)

    async def _judge_episode(self, episode: Episode, timeout_s: float | None) -> Verdict | Unjudged:
        code = UserCode(f"{self._blame}, on {episode.id},", is_shared=True)
        try:
            answer = await run_contained(lambda: self._ask(episode), code, timeout_s=timeout_s)
        except CallTimeout as over:
            detail = f"{self._blame} gave no verdict within {timeout_s:g} s{over.place}"
            return Unjudged(reason="judge_timeout", detail=detail)
        except Exception as error:  # noqa: BLE001 - the boundary for user code: its failure is data, never a score
            at = locate_error(error)
            detail = f"{self._blame} raised {describe_raised(error)}"
            return Unjudged(reason="judge_error", detail=detail, place=at.place, traceback=at.traceback)
        verdict = _parse_verdict(answer)
        if isinstance(verdict, Verdict):
            return verdict
        why = "" if verdict is None else f" ({verdict.detail})"
        return Unjudged(reason="bad_verdict", detail=f"{self._blame} returned {show_value(answer)}; {EXPECTED}{why}")

    async def _ask(self, episode: Episode) -> Any:
        arguments = make_workflow_task(episode, attempt=len(episode.failures)), cast("WorkflowOutput", episode.output)
        if inspect.iscoroutinefunction(self._compute_reward):
            return await self._compute_reward(*arguments)
        answer = await run_in_thread(self._compute_reward, *arguments)
        return await answer if inspect.isawaitable(answer) else answer


async def _close(judge: Any) -> None:
    if has_methods(judge, "close") and inspect.isawaitable(closing := judge.close()):
        await closing


def make_workflow_task(episode: Episode, *, attempt: int) -> WorkflowTask:
    """Return what the workflow of an episode gets in an attempt."""
    task = episode.task
    return WorkflowTask(
        task=task,
        task_id=task.task_id,
        env_type=task.env_type,
        episode_id=episode.id,
        repeat=episode.repeat,
        step=episode.step,
        split=episode.split,
        attempt=attempt,
    )


def _parse_verdict(answer: Any) -> Verdict | Unjudged | None:
    """Return the verdict in a user's return value, or why it cannot be used; None if it holds none."""
    if has_type(answer, Verdict):
        return check_verdict(answer)
    is_pair = has_type(answer, tuple) and len(answer) == 2
    if not is_pair and read_number(answer) is None and (verdict := _read_result(answer)) is not None:
        return verdict
    reward, is_success = answer if is_pair else (answer, None)
    if is_pair:
        is_success = parse_bool(is_success)
        if is_success is None:
            return None
    return check_verdict(Verdict(reward, is_success))


def _read_result(answer: Any) -> Verdict | Unjudged | None:
    """Return the verdict in an object with `reward` and `metrics`; metrics that are not numbers become the rationale."""
    try:
        if not hasattr(answer, "reward"):
            return None
        metrics = dict(getattr(answer, "metrics", None) or {})
        numbers = find_numbers(metrics)
        words = [f"{read_text(name)}: {read_text(value)}" for name, value in metrics.items() if read_text(name) not in numbers]
        verdict = Verdict(
            answer.reward, getattr(answer, "is_success", None), components=numbers, rationale="; ".join(words) or None
        )
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the boundary for judges: values may raise anything, SystemExit too
        return Unjudged(reason="bad_verdict", detail=read_text(error))
    return check_verdict(verdict)


def parse_bool(value: Any) -> bool | None:
    """Return a Python bool for Python's or numpy's; None for anything else."""
    return read_bool(value)
