"""Wraps every judge: clips rewards to 0 and 1, and leaves failures as they are."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from attrs import evolve

from astuner import Judge, Verdict, hookimpl
from astuner.contract.schema import Episode, Group, Unjudged


class BoundedRewards:
    @hookimpl(wrapper=True)
    def astuner_make_judge(self) -> Generator[None, Judge, Judge]:
        made = yield
        return _Bounded(made)


class _Bounded(Judge):
    def __init__(self, inner: Judge) -> None:
        self._inner = inner

    async def observe(self, episode: Episode, environment: Any) -> Mapping[str, Any]:
        return await self._inner.observe(episode, environment)

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        return [_bound(verdict) for verdict in await self._inner.judge(group)]

    async def close(self) -> None:
        await self._inner.close()


def _bound(verdict: Verdict | Unjudged) -> Verdict | Unjudged:
    return evolve(verdict, reward=min(max(verdict.reward, 0.0), 1.0)) if isinstance(verdict, Verdict) else verdict
