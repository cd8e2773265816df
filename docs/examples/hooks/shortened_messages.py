"""Wraps what makes environments: a long first message, such as a whole web page, is cut."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from astuner import hookimpl
from astuner.contract.protocols import Environment, MakeEnvironment

LONGEST = 4000
"""Characters."""


class ShortenedMessages:
    @hookimpl(wrapper=True)
    def astuner_make_environment(self) -> Generator[None, MakeEnvironment, MakeEnvironment]:
        make = yield
        return lambda workflow_task: _Shortened(make(workflow_task))


class _Shortened:
    def __init__(self, inner: Environment) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def reset(self) -> Sequence[Mapping[str, Any]]:
        return [{**message, "content": message["content"][:LONGEST]} for message in await self._inner.reset()]

    async def step(self, action: Mapping[str, Any]) -> tuple[Sequence[Mapping[str, Any]], float, bool, Mapping[str, Any]]:
        return await self._inner.step(action)

    async def evaluate(self) -> float:
        return await self._inner.evaluate()

    async def close(self) -> None:
        await self._inner.close()
