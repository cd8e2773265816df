"""The driver's side of several workers: gives them groups, and replaces a worker that ends."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, cast

from attrs import define, field

from astuner.contract.errors import RunFailed
from astuner.contract.protocols import Engine, EngineAccess, EngineTraits, EpisodeStore, RunInfo, Say
from astuner.contract.protocols.traits import read_traits
from astuner.contract.schema import Episode, Group, Task
from astuner.episodes.rollout.runner import Round, check_failure_budget
from astuner_rollout_workers.messages import (
    CancelGroup,
    CannotStart,
    EpisodePlayed,
    GroupJudged,
    GroupStopped,
    Notice,
    PlayGroup,
    Ready,
    Setup,
    ShareEngine,
    ShutDown,
)
from astuner_rollout_workers.pending_group import PendingGroup
from astuner_rollout_workers.pool_member import PoolMember, WorkerStarter
from astuner_rollout_workers.request_server import RequestServer
from astuner_rollout_workers.shared_budgets import SharedBudgets

MOST_LOSSES = 3
"""A group whose workers have ended this many times ends the run: it is probably what ends them."""
LEAVE_S = 10.0
"""For a worker to close its judges and environments."""
CANCEL_S = 16.0
"""For a worker to give up its groups. Episodes have a grace to end, and then environments to be closed; one that takes longer is
blocked, and ended with its process."""
NUMBERS = re.compile(r"\d+")


@define(eq=False, kw_only=True)
class WorkerPool:
    """Plays the groups of a step with several workers; takes the place of a `RolloutRunner`. Lives in one event loop."""

    traits: ClassVar[EngineTraits] = EngineTraits(measures_busy_time=True)
    """For its workers' own engines."""
    count: int
    starter: WorkerStarter
    engine: Engine
    """Started."""
    run_info: RunInfo
    setup: Setup
    """For each worker."""
    store: EpisodeStore
    budgets: SharedBudgets
    say: Say
    on_episode: Callable[[Episode], None]
    on_group: Callable[[Group], None]
    _members: dict[int, PoolMember] = field(factory=dict, init=False)
    _waiting: deque[PendingGroup] = field(factory=deque, init=False)
    _numbers: Iterator[int] = field(factory=itertools.count, init=False)
    _attempts: Iterator[int] = field(factory=itertools.count, init=False)
    _notified: set[str] = field(factory=set, init=False)
    _tasks: set[asyncio.Task[None]] = field(factory=set, init=False)
    _closed: bool = field(default=False, init=False)

    @property
    def busy_s(self) -> float | None:
        """For how long the busiest worker's own engine worked so far; None if no worker has one that measures it."""
        return max((member.busy_s for member in self._members.values() if member.busy_s is not None), default=None)

    async def open(self) -> None:
        """Start all workers; if one cannot, ends the others and raises why."""
        members = [PoolMember(number=next(self._numbers)) for _ in range(self.count)]
        starting = [asyncio.ensure_future(self._start(member)) for member in members]
        try:
            await asyncio.gather(*starting)
        except BaseException:
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            await self.close()
            raise

    async def run(self, tasks: Sequence[Task], round_: Round) -> list[Group]:
        """Play `repeats` episodes of each task and return the judged groups, in the order of the tasks.

        Does what `RolloutRunner.run` does.
        """
        self._share_engine()
        groups = [self._prepare(task, round_) for task in tasks]
        self._dispatch()
        try:
            judged = await asyncio.gather(*(pending.done for pending in groups))
        except BaseException:
            await asyncio.shield(self._cancel(groups))
            raise
        check_failure_budget(judged, self.run_info.config.rollout.failure_budget)
        return judged

    async def close(self) -> None:
        """End all workers."""
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        members = list(self._members.values())
        for member in members:
            member.send(ShutDown())
        await asyncio.gather(
            *(self._end(member, 0.0 if member.groups else LEAVE_S) for member in members), return_exceptions=True
        )
        self._members.clear()
        await self.starter.close()

    def _prepare(self, task: Task, round_: Round) -> PendingGroup:
        """Take what earlier attempts of the run have finished."""
        pending = PendingGroup(task=task, round=round_)
        for identity in pending.identities:
            known = self.store.recall(identity)
            if known is not None:
                pending.add(known)
                self.on_episode(known)
        if pending.is_judged():
            self._finish(pending, pending.build({}))
        else:
            self._waiting.append(pending)
        return pending

    def _dispatch(self) -> None:
        """Give waiting groups to the workers with the fewest episodes, and one more than it can play at once."""
        most = self.setup.run_info.config.rollout.max_env_worker
        while self._waiting:
            members = [member for member in self._members.values() if member.ready.done() and not member.gone]
            member = min(members, key=lambda member: (member.load, member.number), default=None)
            if member is None or member.load > most:
                return
            pending = self._waiting.popleft()
            pending.number = next(self._attempts)
            member.groups[pending.number] = pending
            member.send(PlayGroup(number=pending.number, task=pending.task, round=pending.round, known=pending.known))

    async def _start(self, member: PoolMember) -> None:
        self._members[member.number] = member
        try:
            member.worker = await self.starter.start(
                member.number, lambda message: self._take(member, message), lambda: self._lose(member)
            )
            member.server = RequestServer(engine=self.engine, send=member.send, budgets=self.budgets)
            member.send(self.setup)
            await member.ready
        except BaseException:
            member.gone = True
            self._members.pop(member.number, None)
            await asyncio.shield(self._end(member, 0.0))
            raise
        self._share_engine()

    def _take(self, member: PoolMember, message: Any) -> None:
        match message:
            case Ready():
                member.ready.set_result(None)
            case CannotStart(error=error):
                member.ready.set_exception(error.restore())
            case Notice(text=text, level=level):
                self._notify_once(text, level)
            case EpisodePlayed() | GroupJudged() | GroupStopped():
                if (pending := member.groups.get(message.number)) is not None:
                    self._take_outcome(member, pending, message)
                    self._dispatch()
            case _ if member.server is not None:
                member.server.take(message)

    def _take_outcome(
        self, member: PoolMember, pending: PendingGroup, message: EpisodePlayed | GroupJudged | GroupStopped
    ) -> None:
        try:
            match message:
                case EpisodePlayed():
                    episode = _read_episode(message)
                    if pending.add(episode):
                        self.store.add_encoded(episode, message.line)
                        self.on_episode(episode)
                case GroupJudged(number=number):
                    del member.groups[number]
                    member.busy_s = message.busy_s
                    group = pending.build(message.verdicts)
                    if message.fresh:
                        self.store.add_verdicts(group)
                    self._finish(pending, group)
                case GroupStopped(number=number, error=error):
                    del member.groups[number]
                    if error is not None:
                        raise error.restore()
                    pending.done.cancel()
        except Exception as error:  # noqa: BLE001 - raised again by `run`: the disk may be full
            if not pending.done.done():
                pending.done.set_exception(error)

    def _finish(self, pending: PendingGroup, group: Group) -> None:
        self.on_group(group)
        if not pending.done.done():
            pending.done.set_result(group)

    async def _cancel(self, groups: Sequence[PendingGroup]) -> None:
        """Let the workers give up these groups, and keep what they finish meanwhile."""
        self._waiting = deque(pending for pending in self._waiting if pending not in groups)
        for member in self._members.values():
            for number, pending in member.groups.items():
                if pending in groups:
                    member.send(CancelGroup(number=number))
        for pending in groups:
            # Marks the errors of other groups as retrieved; the first one is raised.
            if pending.done.done() and not pending.done.cancelled():
                pending.done.exception()
        until = asyncio.get_running_loop().time() + CANCEL_S
        while any(pending in groups for member in self._members.values() for pending in member.groups.values()):
            if asyncio.get_running_loop().time() > until:
                return
            await asyncio.sleep(0.02)

    def _lose(self, member: PoolMember) -> None:
        if self._closed or member.gone:
            return
        member.gone = True
        self._begin(self._replace(member))

    async def _replace(self, member: PoolMember) -> None:
        """Let others play the groups of a worker that has ended, and start another one in its place."""
        self._members.pop(member.number, None)
        await self._end(member, 1.0)
        how = member.worker.explain() if member.worker is not None else "it did not start"
        if not member.ready.done():
            member.ready.set_exception(RunFailed(f"rollout worker {member.number} ended before it was ready: {how}"))
            return
        groups = [pending for pending in member.groups.values() if not pending.done.done()]
        member.groups.clear()
        self.say(
            f"rollout worker {member.number} has ended ({how.partition(';')[0]}); "
            f"its {len(groups)} unfinished group(s) are played again",
            "warning",
        )
        for pending in reversed(groups):
            pending.losses += 1
            if pending.losses < MOST_LOSSES:
                self._waiting.appendleft(pending)
                continue
            pending.done.set_exception(
                RunFailed(
                    f"{pending.losses} rollout workers have ended while they played the task {pending.task.task_id!r} "
                    f"({pending.round.split}, step {pending.round.step}). If its workflow crashes the process, set "
                    f"rollout.isolation to process. Finished episodes are kept: continue with --resume. The last worker: {how}",
                    resumable=True,
                )
            )
        self._dispatch()
        try:
            await self._start(PoolMember(number=next(self._numbers)))
        except Exception as error:  # noqa: BLE001 - the others go on; without any, the run ends with it
            self._give_up(error)
        self._dispatch()

    def _give_up(self, error: Exception) -> None:
        if any(member.ready.done() and not member.gone for member in self._members.values()):
            self.say(f"no rollout worker could take the place of one that has ended: {error}", "warning")
            return
        while self._waiting:
            self._waiting.popleft().done.set_exception(RunFailed(f"no rollout worker is left: {error}"))

    async def _end(self, member: PoolMember, grace_s: float) -> None:
        if member.server is not None:
            await member.server.close()
        if member.worker is not None:
            await member.worker.end(grace_s)

    def _share_engine(self) -> None:
        """Let workers reach the engine's servers themselves, with the weights of now."""
        giving = read_traits(self.engine, EngineTraits).gives_access
        access: EngineAccess | None = cast("Any", self.engine).give_access() if giving else None
        for member in self._members.values():
            reachable = access if access is None or not access.same_machine else _only_here(member, access)
            if member.ready.done() and reachable != member.access:
                member.access = reachable
                member.send(ShareEngine(access=reachable))

    def _notify_once(self, text: str, level: Literal["info", "warning"]) -> None:
        # Each worker counts for itself.
        topic = NUMBERS.sub("#", text)
        if topic not in self._notified:
            self._notified.add(topic)
            self.say(text, level)

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _only_here(member: PoolMember, access: Any) -> Any:
    return access if member.worker is not None and member.worker.same_machine else None


def _read_episode(message: EpisodePlayed) -> Episode:
    try:
        episode: Episode = pickle.loads(message.episode)
    except Exception:  # noqa: BLE001 - a reward of a class that only the worker knows; its line has plain values
        from astuner.runs.store.codec import decode_episode

        return decode_episode(message.line)
    return episode
