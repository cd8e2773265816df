"""One worker: a runner and a gateway in its own process, led by the driver."""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

from attrs import define, evolve, field

from astuner.contract.errors import describe_error
from astuner.contract.protocols import RunInfo
from astuner.contract.schema import Episode, Group
from astuner.episodes.containment.endings import is_requested, make_exception
from astuner.shared.clients.llm_budget import share_budgets
from astuner_rollout_workers.messages import (
    CallFailed,
    CallResult,
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
    Tokens,
)
from astuner_rollout_workers.portable_error import PortableError
from astuner_rollout_workers.remote_engine import DriverCalls, RemoteEngine
from astuner_rollout_workers.shared_budgets import WorkerBudgets

if TYPE_CHECKING:
    from astuner.episodes.rollout.runner import RolloutRunner

_number: ContextVar[int] = ContextVar("number of the group that is played")


@define(eq=False)
class ForwardingStore:
    """The store of a worker: finished episodes go to the driver, and those that it knows are taken from there."""

    send: Callable[[Any], None]
    _known: dict[tuple[int, str], Episode] = field(factory=dict, init=False)
    _fresh: set[int] = field(factory=set, init=False)

    def prepare(self, play: PlayGroup) -> None:
        """Take over the episodes of a group that the driver has."""
        self._known.update({(play.number, episode.id): episode for episode in play.known})

    def recall(self, identity: str) -> Episode | None:
        """Return an episode that the driver had when the group began."""
        return self._known.pop((_number.get(), identity), None)

    def add_episode(self, episode: Episode) -> None:
        """Send a finished episode, before it is judged."""
        from astuner.runs.store.codec import encode_episode

        line = encode_episode(episode, lambda text: self.send(Notice(text=text, level="warning")))
        self.send(EpisodePlayed(number=_number.get(), episode=pickle.dumps(episode), line=line))

    def add_encoded(self, episode: Episode, line: bytes) -> None:
        """Send a finished episode."""
        self.add_episode(episode)

    def add_verdicts(self, group: Group) -> None:
        """Note that the verdicts of this group have to be stored."""
        self._fresh.add(_number.get())

    def take_fresh(self) -> bool:
        """Return whether the verdicts of the group that has ended have to be stored."""
        fresh = _number.get() in self._fresh
        self._fresh.discard(_number.get())
        return fresh

    def sync(self) -> None:
        """Nothing to do: the driver does."""


@define(eq=False)
class RolloutWorker:
    """Takes the driver's messages. Lives in one event loop."""

    send: Callable[[Any], None]
    over: asyncio.Event = field(factory=asyncio.Event, init=False)
    """Set when everything is closed."""
    _stack: AsyncExitStack = field(factory=AsyncExitStack, init=False)
    _calls: DriverCalls = field(init=False)
    _engine: RemoteEngine | None = field(default=None, init=False)
    _store: ForwardingStore = field(init=False)
    _runner: RolloutRunner | None = field(default=None, init=False)
    _groups: dict[int, asyncio.Task[None]] = field(factory=dict, init=False)
    _work: asyncio.Task[None] | None = field(default=None, init=False)
    """The latest of the messages that are handled one after the other."""

    def __attrs_post_init__(self) -> None:
        """Make what sends."""
        self._calls, self._store = DriverCalls(self.send), ForwardingStore(self.send)

    def take(self, message: Any) -> None:
        """Handle a message of the driver."""
        match message:
            case Tokens() | CallResult() | CallFailed():
                self._calls.take(message)
            case PlayGroup():
                self._store.prepare(message)
                playing = asyncio.get_running_loop().create_task(self._play(message, self._work))
                self._groups[message.number] = playing
                playing.add_done_callback(lambda done: self._forget(message.number, done))
            case CancelGroup(number=number):
                if (group := self._groups.get(number)) is not None:
                    group.cancel()
            case Setup():
                self._follow(self._open(message))
            case ShareEngine(access=access):
                self._follow(self._share(access))
            case ShutDown():
                self._follow(self._leave())

    def abandon(self) -> None:
        """Close everything: the driver has gone."""
        self._follow(self._leave())

    def _follow(self, work: Any) -> None:
        earlier = self._work

        async def work_after() -> None:
            if earlier is not None:
                await earlier
            await work

        self._work = asyncio.get_running_loop().create_task(work_after())

    async def _open(self, setup: Setup) -> None:
        try:
            await self._build(setup)
        except BaseException as error:
            if is_requested(error):
                raise
            # Reported by the driver, which ends the run.
            self.send(CannotStart(error=PortableError.of(make_exception(error))))
        else:
            self.send(Ready())

    async def _build(self, setup: Setup) -> None:
        from astuner.episodes.rollout.host import open_rollouts
        from astuner.model.rendering import load_renderer
        from astuner.settings.planning.replan import replan_described
        from astuner.settings.plugins.hooks import Hooks

        sys.path[:] = [*setup.path, *(entry for entry in sys.path if entry not in setup.path)]
        info = setup.run_info
        plan = (await asyncio.to_thread(replan_described, setup.plan)).plan
        self._stack.enter_context(plan.loaded.secrets.hide_in_errors())
        hooks = Hooks(plan.catalog, on_listener_error=self._say, options=info.config.plugins.options)
        with share_budgets(WorkerBudgets(self._calls, asyncio.get_running_loop()).make):
            # In a thread: a judge may have to learn first.
            parts = await asyncio.to_thread(plan.recipe.build, info, hooks)
        takes_ids, options = setup.capabilities.token_ids, info.config.model.rendering
        renderer = await asyncio.to_thread(lambda: load_renderer(setup.model, **options)) if takes_ids else None
        self._engine = RemoteEngine(self._calls, setup.capabilities)
        opening = open_rollouts(
            engine=self._engine, renderer=renderer, parts=parts, run_info=info, store=self._store, notify=self._say
        )
        self._runner = await self._stack.enter_async_context(opening)

    async def _share(self, access: Any) -> None:
        if self._engine is None:
            return
        try:
            await self._engine.take(access)
        except Exception as error:  # noqa: BLE001 - the driver's engine answers as well
            self._say(f"a rollout worker cannot reach the engine, so the driver passes its requests on: {describe_error(error)}")

    async def _play(self, play: PlayGroup, before: asyncio.Task[None] | None) -> None:
        _number.set(play.number)
        try:
            if before is not None:
                # The engine of these weights is being opened.
                await asyncio.shield(before)
            assert self._runner is not None  # the driver waits for Ready
            [group] = await self._runner.run([play.task], play.round)
            verdicts = {episode.id: episode.verdict for episode in group.played if episode.verdict is not None}
            busy_s = None if self._engine is None else self._engine.busy_s
            self.send(GroupJudged(number=play.number, verdicts=verdicts, fresh=self._store.take_fresh(), busy_s=busy_s))
        except Exception as error:  # noqa: BLE001 - raised again in the driver
            self.send(GroupStopped(number=play.number, error=PortableError.of(error)))

    def _forget(self, number: int, group: asyncio.Task[None]) -> None:
        self._groups.pop(number, None)
        # One that is cancelled before its first step runs none of its code.
        if group.cancelled():
            self.send(GroupStopped(number=number, error=None))

    async def _leave(self) -> None:
        groups = list(self._groups.values())
        for group in groups:
            group.cancel()
        await asyncio.gather(*groups, return_exceptions=True)
        try:
            await self._stack.aclose()
        finally:
            self.over.set()

    def _say(self, text: str, level: Literal["info", "warning"] = "warning") -> None:
        self.send(Notice(text=text, level=level))


def divide_run(run_info: RunInfo, workers: int) -> RunInfo:
    """Return the run for one worker: a share of the episodes, its own port, and no failure budget.

    The driver, which sees all episodes, applies the budget.
    """
    rollout = run_info.config.rollout
    share = -(-rollout.max_env_worker // max(1, workers))
    config = evolve(
        run_info.config,
        rollout=evolve(rollout, max_env_worker=share, failure_budget=1.0),
        gateway=evolve(run_info.config.gateway, port=0),
    )
    return evolve(run_info, config=config)
