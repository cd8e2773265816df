"""Records the calls of one episode."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any

from astuner.model.gateway.recording.body_limit import BodyLimit, find_body_limit
from astuner.model.gateway.recording.call_ledger import CallLedger
from astuner.model.gateway.recording.call_maker_choice import choose_call_maker
from astuner.model.gateway.recording.call_seeds import Seeds
from astuner.model.gateway.recording.messages import MessageReader
from astuner.model.gateway.recording.request import AcceptedRequest
from astuner.model.gateway.recording.request_order import RequestOrder
from astuner.model.gateway.recording.turn import Turn
from astuner.model.rendering.encoding import LongText
from astuner.model.rendering.errors import ApiError

if TYPE_CHECKING:
    from astuner.contract.protocols import Engine
    from astuner.contract.schema import Call
    from astuner.model.gateway.api_keys import Caller
    from astuner.model.gateway.recording.call_ledger import CallFailures
    from astuner.model.gateway.recording.episode_spec import EpisodeSpec
    from astuner.model.gateway.recording.request import ChatRequest
    from astuner.model.gateway.tuner import GatewayTuner
    from astuner.model.rendering import TemplateRenderer


MOST_KEPT = 64
"""Responses of an episode that can be asked for again."""


class EpisodeRecorder:
    """The gateway's side of one episode: its keys, its token tree, its calls. Lives in the gateway's event loop."""

    def __init__(
        self,
        spec: EpisodeSpec,
        engine: Engine,
        renderer: TemplateRenderer | None,
        *,
        serial: int,
        tuner: GatewayTuner,
        forget: Callable[[], object],
        pool: Executor | None = None,
    ) -> None:
        """Made by `Gateway.open_episode`; `serial` distinguishes episodes sharing an id, `forget` revokes the keys.

        Threads of the `pool`, the loop's own without one, read what is long.
        """
        self.spec = spec
        self.tuner = tuner
        self.read_messages = MessageReader()
        """Reads the messages of a request."""
        self.order = RequestOrder(pool)
        """Admits the requests: `begin`, `begin_long` and `count` want one that is admitted."""
        self.ledger = CallLedger()
        self._forget = forget
        self._seeds = Seeds(spec.seed)
        self._maker = choose_call_maker(
            spec, engine, renderer, serial=serial, ledger=self.ledger, order=self.order, seeds=self._seeds
        )
        self._body_limit = find_body_limit(spec, engine.capabilities)
        self._kept: dict[str, bytes] = {}
        self._turns: set[Turn] = set()
        self._adapters: dict[str, str] = {}
        self._closed = False

    @property
    def calls(self) -> tuple[Call, ...]:
        """The finished calls, by index; all of them once the recorder is closed."""
        return self.ledger.calls

    @property
    def failures(self) -> CallFailures:
        """The failures of calls that agents have not recovered from."""
        return self.ledger.failures

    @property
    def notices(self) -> list[str]:
        """Notices for the user about how calls were served, each once."""
        return self.ledger.notices

    def find_body_limit(self, max_bytes: int | None) -> BodyLimit:
        """Return the limit of a body's size: the configured one, or what the context needs at most."""
        return self._body_limit if max_bytes is None else BodyLimit(max_bytes)

    def keep(self, response: tuple[str, bytes] | None) -> None:
        """Keep a response under its id; of many, the last ones."""
        if response is not None:
            self._kept[response[0]] = response[1]
            if len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]

    def find_kept(self, response: str) -> bytes:
        """Return a response that was kept; raises ApiError (404)."""
        if response not in self._kept:
            raise ApiError(404, f"Response with id '{response}' not found in this episode.", code="response_not_found")
        return self._kept[response]

    def begin(self, request: ChatRequest, caller: Caller) -> Turn:
        """Start the calls of a request.

        Raises ApiError when it cannot be served, and LongText, with nothing changed, if `begin_long` has to do it.
        """
        caller = caller.retarget(request.target_tag)
        try:
            accepted = self._accept(request, caller)
            return self._start(accepted, self._maker.place(accepted))
        except ApiError as error:
            self.ledger.note_error(caller, error)
            raise

    async def begin_long(self, request: ChatRequest, caller: Caller) -> Turn:
        """Start the calls of an admitted request whose prompts are made in a thread; raises ApiError as `begin` does."""
        caller = caller.retarget(request.target_tag)
        try:
            accepted = self._accept(request, caller)
            places = await self.order.run(partial(self._maker.place_long, accepted))
            self._check_open()
            return self._start(accepted, places)
        except ApiError as error:
            self.ledger.note_error(caller, error)
            raise

    async def count(self, request: ChatRequest, caller: Caller) -> int:
        """Return the number of tokens in an admitted request's prompt without recording it; raises ApiError."""
        accepted = AcceptedRequest(self._remove_tools(request), caller, trained=False)
        try:
            places = self._maker.place(accepted)
        except LongText:
            places = await self.order.run(partial(self._maker.place_long, accepted))
        return self._maker.count(places)

    async def close(self) -> None:
        """Revoke the keys, cancel running calls, and release the engine's sessions of the episode."""
        self._closed = True
        self._forget()
        await asyncio.gather(*(turn.cancel() for turn in tuple(self._turns)))
        await self._maker.release()

    def _accept(self, request: ChatRequest, caller: Caller) -> AcceptedRequest:
        """Return the request as it is served; raises ApiError if it is not."""
        self._check_open()
        trained = all(map(self.spec.trains, caller.targets))
        adapter, known = caller.target_tag, self._adapters
        if adapter in self.spec.adapters and known.setdefault(caller.agent, adapter) != adapter:
            text = (
                f"The agent {caller.agent!r} is answered by the adapters of {known[caller.agent]!r}, and now asks for {adapter!r}"
            )
            raise ApiError(400, f"{text}. Give each target its own agent.", code="several_targets", retry=False)
        if trained:
            self._check_steps(request, caller.agent)
        for name in request.ignored:
            self.ledger.notice(f"{caller.name}: '{name}' has no effect; engines do not support it.")
        if request.hosted_tools:
            names = ", ".join(request.hosted_tools)
            self.ledger.notice(
                f"{caller.name}: tools that the servers of its API would run are not offered to the model: {names}."
            )
        if request.previous is not None:
            request = request.with_earlier(self.ledger.collect_earlier(request.previous))
        if trained and self.spec.rewriter is not None:
            request = request.with_messages(self.spec.rewriter(caller.agent, request.messages))
        return AcceptedRequest(self._remove_tools(request), caller, trained)

    def _check_open(self) -> None:
        """Raise ApiError once the episode is over."""
        if self._closed:
            raise ApiError(401, "This episode is over.", code="episode_closed", retry=False)
        if self.ledger.ended_by is not None:
            raise ApiError(403, f"This episode was ended: {self.ledger.ended_by}", code="episode_terminated", retry=False)

    def _check_steps(self, request: ChatRequest, agent: str) -> None:
        """Raise ApiError if a trained agent has no call left."""
        limit = self.spec.max_steps
        if limit is None or self.ledger.trained_calls[agent] + request.choices <= limit:
            return
        text = (
            f"The agent {agent!r} asks for more model calls than rollout.multi_turn.max_steps = {limit} allows it in an "
            "episode. End the episode before that, or raise this key if the task needs more calls."
        )
        # Not 429: clients would wait and ask again.
        raise ApiError(403, text, code="max_steps_exceeded", retry=False)

    def _remove_tools(self, request: ChatRequest) -> ChatRequest:
        return request.without_tools() if self.spec.disable_tools and request.tools else request

    def _start(self, accepted: AcceptedRequest, places: Any) -> Turn:
        turn, calls = self._maker.make(accepted, places)
        if accepted.trained:
            self.ledger.trained_calls[accepted.caller.agent] += len(calls)
        self._turns.add(turn)
        turn.start(calls, partial(self._end, turn), streams=accepted.request.stream)
        return turn

    def _end(self, turn: Turn) -> None:
        self._turns.discard(turn)
        for draw in turn.draws if turn.unanswered else ():
            self._seeds.give_back(draw)
