"""The simple form of a judge: `compute_reward(workflow_task, workflow_output)`, or a function of these two or of another form."""

from __future__ import annotations

import asyncio
import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from attrs import evolve

from astuner.contract.errors import PluginError
from astuner.contract.plain_values import has_type, read_bool, read_number, read_text, show_value
from astuner.contract.protocols import Judge, JudgeTraits, has_methods, read_traits
from astuner.contract.schema import Episode, Group, Unjudged, Verdict, WorkflowOutput, WorkflowTask
from astuner.contract.user_values.named_arguments import read_form, takes_by_name
from astuner.contract.user_values.outputs import find_numbers
from astuner.contract.user_values.verdicts import check_verdict
from astuner.episodes.judging.judge_calls import call_judge, run_in_thread
from astuner.settings.config.auxiliary_models import AuxiliaryModel

if TYPE_CHECKING:
    from astuner.episodes.judging.foreign_functions import TrlFunction, VerlFunction

EXPECTED = (
    "a float or bool, (float, bool), a Verdict, an object with `reward` and `metrics`, or None for no opinion is expected; "
    "numbers must be finite"
)


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

    A function is called in the form that its parameters name: as `tune()` of AgentScope does, with the `auxiliary_models` if it
    names them, as verl or as TRL does. `blame` begins the message of a failure. Raises `PluginError` for anything else, and for
    what cannot be called.
    """
    if isinstance(judge, type):
        judge = judge()
    if isinstance(judge, Judge):
        return judge
    if has_methods(judge, "observe", "judge"):
        return JudgeAdapter(judge)
    blame = blame or f"judge {getattr(judge, '__qualname__', type(judge).__qualname__)}"
    compute_reward = judge.compute_reward if has_methods(judge, "compute_reward") else judge
    if not callable(compute_reward):
        raise PluginError(
            f"{blame} is {judge!r}; a judge is a subclass of astuner.Judge, a class with "
            "`compute_reward(self, workflow_task, workflow_output)`, or a function of these two"
        )
    try:
        form = read_form(compute_reward)
    except TypeError as error:
        raise PluginError(f"{blame} {error}") from error
    match form:
        case "tune":
            from astuner.episodes.judging.tune_functions import TuneFunction

            tune = TuneFunction(compute_reward, auxiliary_models or {})
            return EpisodeJudge(tune.compute_reward, blame=blame, owner=judge, asks_service=tune.asks_models)
        case "verl" | "trl":
            from astuner.episodes.judging.foreign_functions import TrlFunction, VerlFunction

            foreign = VerlFunction(compute_reward) if form == "verl" else TrlFunction(compute_reward)
            return EpisodeJudge(compute_reward, blame=blame, owner=judge, foreign=foreign)
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

    def __init__(
        self,
        compute_reward: Callable[..., Any],
        *,
        blame: str,
        owner: Any = None,
        foreign: VerlFunction | TrlFunction | None = None,
        asks_service: bool = False,
    ) -> None:
        """Keep the user's function, which may be sync or async, and the object that it belongs to.

        `foreign` knows its arguments, if it takes others than a task and an output.
        """
        self._compute_reward, self._foreign = compute_reward, foreign
        self._by_name = foreign is None and takes_by_name(compute_reward)
        self._owner = owner
        self._blame = blame
        own = read_traits(owner, JudgeTraits)
        self.traits = evolve(self.traits, honours=own.honours, asks_service=own.asks_service or asks_service)

    async def judge_within(self, group: Group, timeout_s: float | None) -> Sequence[Verdict | Unjudged]:
        """Ask for every completed episode at once."""
        return await asyncio.gather(
            *(self._judge_episode(episode, timeout_s) for episode in group.episodes if episode.output is not None)
        )

    async def close(self) -> None:
        """Let the user's object release its resources."""
        await _close(self._owner)

    async def _judge_episode(self, episode: Episode, timeout_s: float | None) -> Verdict | Unjudged:
        answer = await call_judge(
            lambda: self._ask(episode),
            f"{self._blame}, on {episode.id},",
            timeout_s,
            late=f"{self._blame} gave no verdict",
            raised=f"{self._blame} raised ",
            asks_service=self.traits.asks_service,
        )
        if has_type(answer, Unjudged):
            return answer
        if self._foreign is not None:
            answer = self._foreign.read_answer(answer)
        verdict = _parse_verdict(answer)
        if isinstance(verdict, Verdict):
            return verdict
        if isinstance(verdict, Unjudged) and verdict.reason == "abstained":
            task = episode.task.task_id
            return evolve(verdict, detail=f"{self._blame} returned {show_value(answer)}: it has no opinion on task {task!r}")
        why = "" if verdict is None else f" ({verdict.detail})"
        return Unjudged(reason="bad_verdict", detail=f"{self._blame} returned {show_value(answer)}; {EXPECTED}{why}")

    async def _ask(self, episode: Episode) -> Any:
        call = self._bind(episode)
        if inspect.iscoroutinefunction(self._compute_reward):
            return await call()
        answer = await run_in_thread(call)
        return await answer if inspect.isawaitable(answer) else answer

    def _bind(self, episode: Episode) -> Callable[[], Any]:
        if self._foreign is not None:
            return partial(self._compute_reward, **self._foreign.list_arguments(episode))
        task, output = make_workflow_task(episode, attempt=len(episode.failures)), cast("WorkflowOutput", episode.output)
        if self._by_name:
            return partial(self._compute_reward, workflow_task=task, workflow_output=output)
        return partial(self._compute_reward, task, output)


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
    """Return the verdict in a user's return value, or why it is none; None if it holds none."""
    if has_type(answer, Verdict):
        return check_verdict(answer)
    is_pair = has_type(answer, tuple) and len(answer) == 2
    if not is_pair and read_number(answer) is None and (verdict := _read_result(answer)) is not None:
        return verdict
    reward, is_success = answer if is_pair else (answer, None)
    if is_success is not None and read_bool(is_success) is None:
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
