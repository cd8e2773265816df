"""A running call, whichever kind of engine answers it: bounded in time, and recorded exactly once."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import define, evolve, field, frozen

from astuner.contract.schema import Call
from astuner.model.gateway.recording.choice_events import Delta, Done
from astuner.model.rendering.errors import ApiError


@frozen(kw_only=True, eq=False)
class Plan:
    """The settled parameters of a call before it begins."""

    index: int
    choice: int
    agent: str
    target_tag: str
    untrained: str | None
    timeout_s: float | None
    streams: bool
    """Whether the client gets the answer as it comes."""


@frozen(kw_only=True, eq=False)
class FinishedCall:
    """The results of a call."""

    call: Call
    usable: int = 0
    """Output ids whose text is the answer as the client saw it; 0 when the answer is not what was sampled."""
    closed_by: int | None = None
    """The sampled token that ended the turn."""
    malformed: int = 0
    dropped: int = 0
    error: ApiError | None = None
    """The reason why there is no answer."""


P = TypeVar("P", bound=Plan)


@define(eq=False)
class RunningCall(ABC, Generic[P]):
    """Runs one plan. `on_finished` is called exactly once, before the client sees the end."""

    plan: P
    emit: Callable[[Delta | Done], None]
    on_finished: Callable[[FinishedCall], None]
    _started: float = field(factory=time.perf_counter, init=False)
    _over: bool = field(default=False, init=False)
    unanswered: bool = field(default=False, init=False)
    """Whether it ended without an answer. A client that left its stream has seen the beginning, and may want another one."""

    async def run(self) -> None:
        """Generate to the end, or until cancelled."""
        timeout_s = self.plan.timeout_s
        try:
            async with asyncio.timeout(timeout_s) as limit:
                await self._generate()
            self._end()
        except TimeoutError as error:
            timed_out = limit.expired()
            reason = "timeout" if timed_out else "engine_error"
            text = f"No complete answer within {timeout_s:g} s." if timed_out else f"The engine failed: {error!r}"
            # Asked again, with another seed, a shorter answer would replace the long one.
            retry = False if timed_out else None
            self._fail(reason, ApiError(504 if timed_out else 503, text, code=reason, retry=retry))
        except asyncio.CancelledError:
            self.abandon()
            raise
        except ApiError as error:
            self._fail(error.code or "engine_error", error)
        except Exception as error:  # noqa: BLE001 - an engine is extension code; its failure ends this call only
            self._fail("engine_error", ApiError(503, f"The engine failed: {error!r}", code="engine_error"))

    def abandon(self) -> None:
        """Record a cancelled call, even one whose task never ran, and notify its waiting client."""
        if not self._over:
            self._fail("aborted", ApiError(503, "The call was cancelled.", code="aborted", retry=False))

    @abstractmethod
    async def _generate(self) -> None:
        """Generate the answer."""

    @abstractmethod
    def _end(self) -> None:
        """Record the call and pass on the end of the answer."""

    @abstractmethod
    def _make_record(self, failure: str | None) -> FinishedCall:
        """Return the results of the call, or of what was sampled before it failed for this reason."""

    def _record(self, failure: str | None = None, error: ApiError | None = None) -> None:
        if not self._over:
            self._over = True
            left_stream = self.plan.streams and error is not None and error.code == "aborted"
            self.unanswered = error is not None and not left_stream
            done = self._make_record(failure)
            self.on_finished(done if error is None else evolve(done, error=error))

    def _fail(self, reason: str, error: ApiError) -> None:
        self._record(reason, error)
        self.emit(Done(self.plan.choice, error))
