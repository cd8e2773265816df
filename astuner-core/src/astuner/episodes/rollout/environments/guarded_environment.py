"""An environment as core calls it: what it returns is checked, and what it raises carries its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, frozen

from astuner.contract.plain_values import LARGEST_REWARD, make_plain, show_value
from astuner.contract.protocols import EnvironmentTraits, read_traits
from astuner.contract.schema import Message
from astuner.contract.user_values.verdicts import describe_range, read_reward
from astuner.episodes.containment.endings import describe_raised, is_requested


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
    """As the environment gave it."""


@define
class GuardedEnvironment:
    """Calls an environment. Every failure is an `EnvironmentFailed` that begins with its blame."""

    environment: Any
    blame: str
    messages_mended: int = 0
    """Messages whose text was not valid Unicode; no tokenizer takes lone surrogates, and each became U+FFFD."""

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The tools that the model may call now, in OpenAI's form; none if the environment does not offer any."""
        if not read_traits(self.environment, EnvironmentTraits).offers_tools:
            return ()
        return tuple(make_plain(tool).value for tool in self.environment.tools or ())

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
            done=self._check_done(done),
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
            raised = describe_raised(error, own_file=__file__)
            raise EnvironmentFailed(f"{self.blame}: {name} raised {raised}", after=name) from error

    def _check_messages(self, name: str, found: Any) -> tuple[Message, ...]:
        if isinstance(found, Mapping | str | bytes) or not isinstance(found, Sequence):
            raise self._make_error(name, found, "a list of messages")
        checked = []
        for message in found:
            if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
                raise self._make_error(name, message, "messages as {'role': 'user', 'content': TEXT}")
            plain = make_plain(message)
            if plain.replaced is not None:
                raise self._make_error(name, message, f"messages of JSON values, and not {plain.replaced}")
            self.messages_mended += plain.mended
            checked.append(plain.value)
        return tuple(checked)

    def _check_number(self, name: str, found: Any) -> float:
        number = read_reward(found)
        if number is None:
            raise self._make_error(name, found, describe_range(LARGEST_REWARD))
        return number

    def _check_done(self, found: Any) -> bool:
        try:
            return bool(found)
        except Exception:  # noqa: BLE001 - an array of several values has no truth value
            raise self._make_error("step", found, "whether the episode is done") from None

    def _make_error(self, name: str, found: Any, wanted: str) -> EnvironmentFailed:
        return EnvironmentFailed(f"{self.blame}: {name} gave {show_value(found, 120)}; core needs {wanted}", after=name)
