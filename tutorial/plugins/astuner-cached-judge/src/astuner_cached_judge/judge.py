"""A judge that wraps another one, and calls it only for episodes it has not judged before."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from attrs import evolve

from astuner import Judge, Verdict
from astuner.contract.protocols import JudgeTraits, read_traits
from astuner.contract.schema import Episode, Group, Unjudged
from astuner_cached_judge.keys import episode_key, group_key
from astuner_cached_judge.store import VerdictStore

P = ParamSpec("P")
T = TypeVar("T")


class CachedJudge(Judge):
    """Answers from the store if it can. A failure of the inner judge passes through, and is never kept."""

    def __init__(
        self,
        inner: Judge,
        *,
        name: str,
        key: str,
        store: VerdictStore,
        run: str,
        pointwise: bool,
        say: Callable[[str], None],
    ) -> None:
        """`key` identifies the inner judge, `run` the run in the store's counts; `say` is called when the store fails."""
        self._inner, self._name, self._key = inner, name, key
        self.traits = read_traits(inner, JudgeTraits)
        self._store, self._run, self._pointwise, self._say = store, run, pointwise, say

    async def observe(self, episode: Episode, environment: Any) -> Mapping[str, Any]:
        """Let the inner judge look at the environment while it lives; its observation is part of the key."""
        return await self._inner.observe(episode, environment)

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        """Return one verdict per completed episode, in their order."""
        return await (self._judge_each(group) if self._pointwise else self._judge_whole(group))

    async def close(self) -> None:
        """Let the inner judge release what it holds."""
        await self._inner.close()

    async def _judge_whole(self, group: Group) -> Sequence[Verdict | Unjudged]:
        episodes = sum(episode.completed for episode in group.episodes)
        key = group_key(self._key, group)
        kept = (await self._try(self._store.find, [key]) or {}).get(key)
        if kept is not None:
            await self._count(found=episodes, asked=0)
            return kept
        verdicts = await self._inner.judge(group)
        if len(verdicts) == episodes:
            await self._try(self._store.add, {key: verdicts})
        await self._count(found=0, asked=episodes)
        return verdicts

    async def _judge_each(self, group: Group) -> Sequence[Verdict | Unjudged]:
        completed = {episode.id: episode for episode in group.episodes if episode.completed}
        keys = {name: episode_key(self._key, episode) for name, episode in completed.items()}
        kept: Mapping[str, Sequence[Verdict | Unjudged]] = await self._try(self._store.find, set(keys.values())) or {}
        # Identical siblings are judged once.
        new = {key: completed[name] for name, key in keys.items() if key not in kept}
        if new:
            verdicts = await self._inner.judge(evolve(group, episodes=tuple(new.values())))
            if len(verdicts) != len(new):
                raise ValueError(f"judge '{self._name}' gave {len(verdicts)} verdicts for {len(new)} completed episodes")
            judged = {key: [verdict] for key, verdict in zip(new, verdicts, strict=True)}
            await self._try(self._store.add, judged)
            kept = {**kept, **judged}
        await self._count(found=len(keys) - len(new), asked=len(new))
        return [kept[key][0] for key in keys.values()]

    async def _count(self, *, found: int, asked: int) -> None:
        await self._try(self._store.count, self._run, self._name, found=found, asked=asked)

    async def _try(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Use the store off the event loop. If it fails, the episodes are still judged."""
        try:
            return await asyncio.to_thread(act, *args, **kwargs)
        except sqlite3.Error as error:
            self._say(f"{type(error).__name__}: {error}; verdicts are not kept where this happens")
            return None
