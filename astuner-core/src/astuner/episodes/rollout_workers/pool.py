"""The driver's side of several players: who plays which group, and what happens when one ends."""

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
from astuner.episodes.rollout_workers.desk import Desk
from astuner.episodes.rollout_workers.game import Game
from astuner.episodes.rollout_workers.messages import (
    Cancel,
    CannotStart,
    Dropped,
    Judged,
    Leave,
    Play,
    Played,
    Ready,
    Said,
    Setup,
    Share,
)
from astuner.episodes.rollout_workers.seat import Seat, Starter
from astuner.episodes.rollout_workers.shared_budgets import SharedBudgets

MOST_LOSSES = 3
"""A group whose players have ended so often ends the run: it is probably what ends them."""
LEAVE_S = 10.0
"""For a player to close its judges and environments."""
CANCEL_S = 16.0
"""For a player to give up its groups. Episodes have a grace to end, and then environments to be closed; one that takes longer is
blocked, and ended with its process."""
NUMBERS = re.compile(r"\d+")


@define(eq=False, kw_only=True)
class PlayerPool:
    """Plays the groups of a step with several players; takes the place of a `RolloutRunner`. Lives in one event loop."""

    traits: ClassVar[EngineTraits] = EngineTraits(measures_busy_time=True)
    """For its players' own engines."""
    count: int
    starter: Starter
    engine: Engine
    """Started."""
    run_info: RunInfo
    setup: Setup
    """For each player."""
    store: EpisodeStore
    budgets: SharedBudgets
    say: Say
    on_episode: Callable[[Episode], None]
    on_group: Callable[[Group], None]
    _seats: dict[int, Seat] = field(factory=dict, init=False)
    _waiting: deque[Game] = field(factory=deque, init=False)
    _numbers: Iterator[int] = field(factory=itertools.count, init=False)
    _attempts: Iterator[int] = field(factory=itertools.count, init=False)
    _notified: set[str] = field(factory=set, init=False)
    _tasks: set[asyncio.Task[None]] = field(factory=set, init=False)
    _closed: bool = field(default=False, init=False)

    @property
    def busy_s(self) -> float | None:
        """For how long the busiest player's own engine worked so far; None if no player has one that measures it."""
        return max((seat.busy_s for seat in self._seats.values() if seat.busy_s is not None), default=None)

    async def open(self) -> None:
        """Start all players; if one cannot, ends the others and raises why."""
        seats = [Seat(number=next(self._numbers)) for _ in range(self.count)]
        starting = [asyncio.ensure_future(self._start(seat)) for seat in seats]
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
        games = [self._prepare(task, round_) for task in tasks]
        self._dispatch()
        try:
            judged = await asyncio.gather(*(game.done for game in games))
        except BaseException:
            await asyncio.shield(self._cancel(games))
            raise
        check_failure_budget(judged, self.run_info.config.rollout.failure_budget)
        return judged

    async def close(self) -> None:
        """End all players."""
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        seats = list(self._seats.values())
        for seat in seats:
            seat.send(Leave())
        await asyncio.gather(*(self._end(seat, 0.0 if seat.games else LEAVE_S) for seat in seats), return_exceptions=True)
        self._seats.clear()
        await self.starter.close()

    def _prepare(self, task: Task, round_: Round) -> Game:
        """Take what earlier attempts of the run have finished."""
        game = Game(task=task, round=round_)
        for identity in game.identities:
            known = self.store.recall(identity)
            if known is not None:
                game.add(known)
                self.on_episode(known)
        if game.is_judged():
            self._finish(game, game.build({}))
        else:
            self._waiting.append(game)
        return game

    def _dispatch(self) -> None:
        """Give waiting groups to the players with the fewest episodes, with something in hand for each free place."""
        most = self.setup.run_info.config.rollout.max_env_worker
        while self._waiting:
            seats = [seat for seat in self._seats.values() if seat.ready.done() and not seat.gone]
            seat = min(seats, key=lambda one: (one.load, one.number), default=None)
            if seat is None or seat.load > most:
                return
            game = self._waiting.popleft()
            game.number = next(self._attempts)
            seat.games[game.number] = game
            seat.send(Play(number=game.number, task=game.task, round=game.round, known=game.known))

    async def _start(self, seat: Seat) -> None:
        self._seats[seat.number] = seat
        try:
            seat.link = await self.starter.start(seat.number, lambda message: self._take(seat, message), lambda: self._lose(seat))
            seat.desk = Desk(engine=self.engine, send=seat.send, budgets=self.budgets)
            seat.send(self.setup)
            await seat.ready
        except BaseException:
            seat.gone = True
            self._seats.pop(seat.number, None)
            await asyncio.shield(self._end(seat, 0.0))
            raise
        self._share_engine()

    def _take(self, seat: Seat, message: Any) -> None:
        match message:
            case Ready():
                seat.ready.set_result(None)
            case CannotStart(error=error):
                seat.ready.set_exception(error.restore())
            case Said(text=text, level=level):
                self._notify_once(text, level)
            case Played() | Judged() | Dropped():
                if (game := seat.games.get(message.number)) is not None:
                    self._take_outcome(seat, game, message)
                    self._dispatch()
            case _ if seat.desk is not None:
                seat.desk.take(message)

    def _take_outcome(self, seat: Seat, game: Game, message: Played | Judged | Dropped) -> None:
        try:
            match message:
                case Played():
                    episode = _read_episode(message)
                    if game.add(episode):
                        self.store.add_encoded(episode, message.line)
                        self.on_episode(episode)
                case Judged(number=number):
                    del seat.games[number]
                    seat.busy_s = message.busy_s
                    group = game.build(message.verdicts)
                    if message.fresh:
                        self.store.add_verdicts(group)
                    self._finish(game, group)
                case Dropped(number=number, error=error):
                    del seat.games[number]
                    if error is not None:
                        raise error.restore()
                    game.done.cancel()
        except Exception as error:  # noqa: BLE001 - raised again by `run`: the disk may be full
            if not game.done.done():
                game.done.set_exception(error)

    def _finish(self, game: Game, group: Group) -> None:
        self.on_group(group)
        if not game.done.done():
            game.done.set_result(group)

    async def _cancel(self, games: Sequence[Game]) -> None:
        """Let the players give up these groups, and keep what they finish meanwhile."""
        self._waiting = deque(game for game in self._waiting if game not in games)
        for seat in self._seats.values():
            for number, game in seat.games.items():
                if game in games:
                    seat.send(Cancel(number=number))
        for game in games:
            # One that failed beside the error that is raised.
            if game.done.done() and not game.done.cancelled():
                game.done.exception()
        until = asyncio.get_running_loop().time() + CANCEL_S
        while any(game in games for seat in self._seats.values() for game in seat.games.values()):
            if asyncio.get_running_loop().time() > until:
                return
            await asyncio.sleep(0.02)

    def _lose(self, seat: Seat) -> None:
        if self._closed or seat.gone:
            return
        seat.gone = True
        self._begin(self._replace(seat))

    async def _replace(self, seat: Seat) -> None:
        """Let others play the groups of a player that has ended, and start another one in its place."""
        self._seats.pop(seat.number, None)
        await self._end(seat, 1.0)
        how = seat.link.explain() if seat.link is not None else "it did not start"
        if not seat.ready.done():
            seat.ready.set_exception(RunFailed(f"player {seat.number} ended before it was ready: {how}"))
            return
        games = [game for game in seat.games.values() if not game.done.done()]
        seat.games.clear()
        self.say(
            f"player {seat.number} has ended ({how.partition(';')[0]}); its {len(games)} unfinished group(s) are played again",
            "warning",
        )
        for game in reversed(games):
            game.losses += 1
            if game.losses < MOST_LOSSES:
                self._waiting.appendleft(game)
                continue
            game.done.set_exception(
                RunFailed(
                    f"{game.losses} players have ended while they played the task {game.task.task_id!r} "
                    f"({game.round.split}, step {game.round.step}). If its workflow crashes the process, set rollout.isolation "
                    f"to process. Finished episodes are kept: continue with --resume. The last player: {how}",
                    resumable=True,
                )
            )
        self._dispatch()
        try:
            await self._start(Seat(number=next(self._numbers)))
        except Exception as error:  # noqa: BLE001 - the others go on; without any, the run ends with it
            self._give_up(error)
        self._dispatch()

    def _give_up(self, error: Exception) -> None:
        if any(seat.ready.done() and not seat.gone for seat in self._seats.values()):
            self.say(f"no player could take the place of one that has ended: {error}", "warning")
            return
        while self._waiting:
            self._waiting.popleft().done.set_exception(RunFailed(f"no player is left: {error}"))

    async def _end(self, seat: Seat, grace_s: float) -> None:
        if seat.desk is not None:
            await seat.desk.close()
        if seat.link is not None:
            await seat.link.end(grace_s)

    def _share_engine(self) -> None:
        """Let players reach the engine's servers themselves, with the weights of now."""
        giving = read_traits(self.engine, EngineTraits).gives_access
        access: EngineAccess | None = cast("Any", self.engine).give_access() if giving else None
        for seat in self._seats.values():
            reachable = access if access is None or not access.same_machine else _only_here(seat, access)
            if seat.ready.done() and reachable != seat.access:
                seat.access = reachable
                seat.send(Share(access=reachable))

    def _notify_once(self, text: str, level: Literal["info", "warning"]) -> None:
        # Each player counts for itself.
        topic = NUMBERS.sub("#", text)
        if topic not in self._notified:
            self._notified.add(topic)
            self.say(text, level)

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _only_here(seat: Seat, access: Any) -> Any:
    return access if seat.link is not None and seat.link.same_machine else None


def _read_episode(message: Played) -> Episode:
    try:
        episode: Episode = pickle.loads(message.episode)
    except Exception:  # noqa: BLE001 - a reward of a class that only the player knows; its line has plain values
        from astuner.runs.store.codec import decode_episode

        return decode_episode(message.line)
    return episode
