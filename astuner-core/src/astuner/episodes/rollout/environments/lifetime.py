"""The life of an episode's environment: made, handed out, and closed whatever happens."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import AstunerError
from astuner.episodes.containment.contained_call import CallTimeout, run_contained
from astuner.episodes.containment.endings import CodeEnded, describe_raised
from astuner.episodes.containment.user_code import UserCode
from astuner.episodes.rollout.environments.guarded_environment import EnvironmentFailed, GuardedEnvironment
from astuner.episodes.rollout.environments.home_thread import HomeThread, ThreadProxy
from astuner.episodes.rollout.environments.scored_once import ScoredOnce
from astuner.episodes.rollout.environments.selection import EnvironmentChoice, EnvironmentFinder
from astuner.settings.config.env_variables import NO_ENVIRONMENT

if TYPE_CHECKING:
    from astuner.contract.protocols import Candidate, ComponentMaker, MakeEnvironment, RunInfo
    from astuner.contract.schema import WorkflowTask
    from astuner.settings.config.env_variables import ActionPreference
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.component import Component

CLOSE_TIMEOUT_S = 10.0
"""Longest that an environment may take to be closed: a run that is interrupted waits for it."""


class LivingEnvironment:
    """The environment of one episode."""

    def __init__(
        self, environment: Any, *, name: str, blame: str, preference: ActionPreference, home: HomeThread | None, owner: UserCode
    ) -> None:
        """`home` is its own thread, if it has one, and `owner` is its episode."""
        self.name = name
        self.preference = preference
        """How actions are read off answers where it leads."""
        self.blame = blame
        self.facade = environment if home is None else ThreadProxy(environment, home)
        """What workflows are given."""
        self.scored = ScoredOnce(self.facade)
        """What judges are given."""
        self._environment, self._home, self._owner = environment, home, owner

    @property
    def guarded(self) -> GuardedEnvironment:
        """The same, for the loop in which it leads."""
        return GuardedEnvironment(self.scored, self.blame)

    def find_failed_method(self, error: BaseException) -> str | None:
        """Return the environment's method, called by a workflow, that `error` comes from; None if it comes from elsewhere."""
        if isinstance(error, CodeEnded) and error.__cause__ is not None:
            error = error.__cause__
        frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
        return next((frame.f_code.co_name for frame in frames if frame.f_locals.get("self") is self._environment), None)

    async def close(self, tell: Callable[[str], None]) -> None:
        """Close it, in bounded time, also while the episode is being cancelled; a failure is logged."""
        self.scored.cancel_scores()
        closing = asyncio.ensure_future(self._close(tell))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            # What it holds (a container, a server's instance) would outlive the run.
            await closing
            raise

    async def _close(self, tell: Callable[[str], None]) -> None:
        try:
            if self._home is not None:
                await self._home.end(self._ask_to_close, CLOSE_TIMEOUT_S)
            else:
                code = UserCode(f"{self.blame}, being closed,", report=self._owner.report, parent=self._owner)
                await run_contained(self._ask_to_close, code, timeout_s=CLOSE_TIMEOUT_S)
        except Exception as error:  # noqa: BLE001  # the boundary for environments: the episode is complete without it
            late = isinstance(error, CallTimeout | TimeoutError)
            said = f"not within {CLOSE_TIMEOUT_S:g} s" if late else describe_raised(error)
            tell(f"{self.blame} could not be closed: {said}")

    async def _ask_to_close(self) -> None:
        closing = self._environment.close()
        if inspect.isawaitable(closing):
            await closing


class Environments:
    """Makes the environments of a rollout process."""

    def __init__(
        self,
        choice: EnvironmentChoice,
        run_info: RunInfo,
        catalog: Catalog,
        hooks: ComponentMaker,
        *,
        in_threads: bool = False,
    ) -> None:
        """Find them in `catalog`, and make them through `hooks`; `in_threads`: each in a thread, whatever `isolation` is."""
        self._run_info, self._hooks = run_info, hooks
        self._finder, self._preference = EnvironmentFinder(choice, catalog), choice.preference
        self._makers: dict[Candidate, MakeEnvironment] = {}
        self._in_threads = in_threads or run_info.config.rollout.isolation == "thread"

    async def enter(
        self, workflow_task: WorkflowTask, lives: AsyncExitStack, tell: Callable[[str], None], owner: UserCode
    ) -> LivingEnvironment | None:
        """Make the environment of the episode `owner`, to be closed by `lives`; None when its task has none.

        Reports one that the task names but no package offers. Raises `EnvironmentFailed`.
        """
        component = self._finder.of(workflow_task.env_type)
        if component is not None:
            living = await self._open(component, workflow_task, owner)
            lives.push_async_callback(living.close, tell)
            return living
        if workflow_task.env_type != NO_ENVIRONMENT:
            why = self._finder.why_none(workflow_task.env_type)
            tell(
                f"WorkflowTask.gym_env is None: {why} If no task is to have an environment, say so by "
                "environment.environment_type: no_env"
            )
        return None

    async def _open(self, component: Component, workflow_task: WorkflowTask, owner: UserCode) -> LivingEnvironment:
        blame = component.candidate.blame
        home = await HomeThread.start(f"astuner-environment-{workflow_task.episode_id}") if self._in_threads else None
        try:
            make = partial(self._maker(component), workflow_task)
            code = UserCode(f"{blame}, being made,", report=owner.report, parent=owner)
            environment = await run_contained(partial(_later, make) if home is None else partial(home.run, _later, make), code)
        except BaseException as error:
            if home is not None:
                await home.end(partial(asyncio.sleep, 0), CLOSE_TIMEOUT_S)
            if isinstance(error, AstunerError):
                raise EnvironmentFailed(str(error)) from error
            if isinstance(error, Exception):
                raise EnvironmentFailed(f"{blame} could not be made: {describe_raised(error)}") from error
            raise
        name, preference = component.candidate.name, self._preference
        return LivingEnvironment(environment, name=name, blame=blame, preference=preference, home=home, owner=owner)

    def _maker(self, component: Component) -> MakeEnvironment:
        if component.candidate not in self._makers:
            made = self._hooks.make_environment(component.candidate, component.options, self._run_info)
            self._makers[component.candidate] = made
        return self._makers[component.candidate]


async def _later(make: Callable[[], Any]) -> Any:
    return make()
