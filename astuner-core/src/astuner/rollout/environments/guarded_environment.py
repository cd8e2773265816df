"""An environment as core calls it: what it returns is checked, and what it raises carries its name."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from astuner.containment.endings import describe_raised, is_requested
from astuner.errors import describe_error
from astuner.protocols.optional import OffersTools
from astuner.schema import Message


class EnvironmentFailed(Exception):
    """An environment could not be made, raised, or returned something invalid."""

    def __init__(self, message: str, *, after: str = "") -> None:
        """`after` is the method that failed, if it was made at all."""
        self.after = after
        super().__init__(message)


@frozen(kw_only=True)
class Step:
    """The result of an action."""

    messages: tuple[Message, ...]
    reward: float
    done: bool
    info: Mapping[str, Any]


@frozen
class GuardedEnvironment:
    """Calls an environment. Every failure is an `EnvironmentFailed` that begins with its blame."""

    environment: Any
    blame: str

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The tools that the model may call now, in OpenAI's form; an environment without the attribute has none."""
        offering: OffersTools = self.environment
        try:
            # Read once, since a property may do work.
            tools = offering.tools
        except AttributeError:
            return ()
        return tuple(tools or ())

    async def reset(self) -> tuple[Message, ...]:
        """Return the first messages."""
        messages = self._check_messages("reset", await self._call("reset", lambda: self.environment.reset()))
        if not messages:
            raise EnvironmentFailed(f"{self.blame}: reset returned no message; the model needs one to answer")
        return messages

    async def step(self, action: Message) -> Step:
        """Act."""
        found = await self._call("step", lambda: self.environment.step(action))
        if not isinstance(found, tuple | list) or len(found) != 4:
            raise self._make_error("step", found, "(messages, reward, done, info)")
        messages, reward, done, info = found
        if not isinstance(info, Mapping):
            raise self._make_error("step", info, "a mapping as info")
        return Step(
            messages=self._check_messages("step", messages),
            reward=self._check_number("step", reward),
            done=bool(done),
            info=dict(info),
        )

    async def evaluate(self) -> float:
        """Return the score of the episode so far."""
        return self._check_number("evaluate", await self._call("evaluate", lambda: self.environment.evaluate()))

    async def _call(self, name: str, begin: Callable[[], Any]) -> Any:
        try:
            found = begin()
            if not inspect.isawaitable(found):
                raise TypeError(f"it returned {found!r:.80} and is awaited: write `async def {name}`")
            return await found
        except BaseException as error:
            if is_requested(error):
                raise
            # Of what is raised right here, the place says nothing.
            raised = describe_error(error, own_file=__file__) if isinstance(error, Exception) else describe_raised(error)
            raise EnvironmentFailed(f"{self.blame}: {name} raised {raised}", after=name) from error

    def _check_messages(self, name: str, found: Any) -> tuple[Message, ...]:
        if isinstance(found, Mapping | str | bytes) or not isinstance(found, Sequence):
            raise self._make_error(name, found, "a list of messages")
        for message in found:
            if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
                raise self._make_error(name, message, "messages as {'role': 'user', 'content': TEXT}")
            try:
                json.dumps(dict(message))
            except (TypeError, ValueError) as error:
                raise self._make_error(name, message, f"messages of JSON values ({error})") from None
        return tuple(dict(message) for message in found)

    def _check_number(self, name: str, found: Any) -> float:
        try:
            number = float(found)
        except (TypeError, ValueError):
            number = math.nan
        if isinstance(found, str) or not math.isfinite(number):
            raise self._make_error(name, found, "a finite number")
        return number

    def _make_error(self, name: str, found: Any, wanted: str) -> EnvironmentFailed:
        return EnvironmentFailed(f"{self.blame}: {name} gave {found!r:.120}; core needs {wanted}", after=name)
