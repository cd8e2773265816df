"""Makes the reward itself: core's combined reward, minus the mean of the judged siblings."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from attrs import evolve

from astuner import Judge, Verdict, hookimpl
from astuner.contract.schema import Episode, Group, Unjudged


class WithinTheGroup:
    @hookimpl(wrapper=True)
    def astuner_make_reward(self) -> Generator[None, Judge, Judge]:
        combined = yield
        return _Centred(combined)


class _Centred(Judge):
    def __init__(self, inner: Judge) -> None:
        self._inner = inner

    async def observe(self, episode: Episode, environment: Any) -> Mapping[str, Any]:
        return await self._inner.observe(episode, environment)

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        found = await self._inner.judge(group)
        rewards = [verdict.reward for verdict in found if isinstance(verdict, Verdict)]
        mean = sum(rewards) / len(rewards) if rewards else 0.0
        return [evolve(one, reward=one.reward - mean) if isinstance(one, Verdict) else one for one in found]

    async def close(self) -> None:
        await self._inner.close()
