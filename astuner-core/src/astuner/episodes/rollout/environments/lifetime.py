"""Makes the environments of episodes, each to be closed when its episode ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import AstunerError
from astuner.episodes.containment.contained_call import run_contained
from astuner.episodes.containment.endings import describe_raised
from astuner.episodes.containment.user_code import UserCode
from astuner.episodes.rollout.environments.selection import EnvironmentChoice, EnvironmentFinder
from astuner.settings.config.env_variables import NO_ENVIRONMENT

if TYPE_CHECKING:
    from astuner.contract.protocols import Candidate, ComponentMaker, MakeEnvironment, RunInfo
    from astuner.contract.schema import WorkflowTask
    from astuner.episodes.rollout.environments.living_environment import LivingEnvironment
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.component import Component


class Environments:
    """Makes the environments of a rollout process."""

    def __init__(
        self, choice: EnvironmentChoice, run_info: RunInfo, catalog: Catalog, hooks: ComponentMaker, *, in_threads: bool = False
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
        from astuner.episodes.rollout.environments.guarded_environment import EnvironmentFailed
        from astuner.episodes.rollout.environments.home_thread import HomeThread
        from astuner.episodes.rollout.environments.living_environment import CLOSE_TIMEOUT_S, LivingEnvironment

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
