"""The episode's environment as AgentJet's code uses it: `step` and `evaluate` block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from astuner.contract.protocols import Environment
from astuner.contract.schema import Message

T = TypeVar("T")


class BlockingEnvironment:
    """Wraps an environment of astuner; other attributes are passed through."""

    def __init__(self, environment: Environment) -> None:
        """Keep the environment, which core closes."""
        self._environment = environment

    def step(self, action: Mapping[str, Any]) -> tuple[Any, float, bool, Mapping[str, Any]]:
        """Return (observation, reward, done, info) after an answer of the model: `{"content": …, "role": "assistant"}`.

        The observation is a text if it is one message of the user, else the list of messages. Content that is a list of blocks,
        as AgentScope has it, is read as its text.
        """
        answer = {"role": "assistant", **action, "content": _read_text(action.get("content"))}
        messages, reward, done, info = wait_for(lambda: self._environment.step(answer))
        return _to_observation(messages), reward, done, info

    def evaluate(self, episode_uuid: str | None = None, params: Mapping[str, Any] | None = None) -> float:
        """Return the score of the episode so far."""
        return wait_for(self._environment.evaluate)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the environment itself."""
        return getattr(self._environment, name)


def wait_for(begin: Callable[[], Awaitable[T]]) -> T:
    """Wait in this thread, whose loop may be running, for what another thread awaits; raises what that raises."""
    found: list[T] = []
    raised: list[BaseException] = []

    async def run() -> T:
        return await begin()

    def work() -> None:
        try:
            found.append(asyncio.run(run()))
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            raised.append(error)

    thread = threading.Thread(target=work, name="astuner-ajet-environment", daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return found[0]


def _to_observation(messages: Sequence[Message]) -> Any:
    if len(messages) == 1 and messages[0].get("role") == "user" and isinstance(messages[0].get("content"), str):
        return messages[0]["content"]
    return [dict(message) for message in messages]


def _read_text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Sequence):
        return "".join(str(block.get("text", "")) for block in content if isinstance(block, Mapping))
    return str(content)
