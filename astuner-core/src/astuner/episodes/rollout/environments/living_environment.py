"""The environment of an episode: what it hands out, and how it is closed whatever happens."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from astuner.episodes.containment.contained_call import CallTimeout, run_contained
from astuner.episodes.containment.endings import CodeEnded, describe_raised
from astuner.episodes.containment.user_code import UserCode
from astuner.episodes.rollout.environments.guarded_environment import GuardedEnvironment
from astuner.episodes.rollout.environments.home_thread import HomeThread, ThreadProxy
from astuner.episodes.rollout.environments.scored_once import ScoredOnce

if TYPE_CHECKING:
    from astuner.settings.config.env_variables import ActionPreference

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
