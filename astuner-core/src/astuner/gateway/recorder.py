"""Records the calls of one episode."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from attrs import evolve

from astuner.gateway.answers import Delta, Done
from astuner.gateway.chat_only import ChatCall, ChatEngine, ChatPlan
from astuner.gateway.errors import ApiError, context_full
from astuner.gateway.live import CallPlan, Finished, LiveCall
from astuner.gateway.seeds import Names, Seeds
from astuner.gateway.tree import Placement, TokenTree
from astuner.schema import Call, Request, Sampling

if TYPE_CHECKING:
    from astuner.gateway.episode import EpisodeSpec
    from astuner.gateway.keys import Caller
    from astuner.gateway.rendering import Renderer
    from astuner.gateway.request import ChatRequest
    from astuner.gateway.tuner import GatewayTuner
    from astuner.protocols import Engine


class _Live(Protocol):
    async def run(self) -> None: ...

    def abandon(self) -> None: ...


class Turn:
    """One request of a client: a call per choice, all of them under way."""

    def __init__(self, id_: str) -> None:
        """`id_` is unique to the response."""
        self.id = id_
        self.events: asyncio.Queue[Delta | Done | None] = asyncio.Queue()
        """What happens to the choices; None when the client is gone."""
        self.tasks: list[asyncio.Task[None]] = []

    async def cancel(self) -> None:
        """End what still runs, and wait for its records."""
        running = [task for task in self.tasks if not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.gather(*running, return_exceptions=True)


class EpisodeRecorder:
    """The gateway's side of one episode: its keys, its token tree, its calls. Lives in the gateway's event loop."""

    def __init__(
        self,
        spec: EpisodeSpec,
        engine: Engine,
        renderer: Renderer | None,
        *,
        serial: int,
        tuner: GatewayTuner,
        forget: Callable[[], None],
    ) -> None:
        """Made by `Gateway.open_episode`; `serial` tells episodes of the same id apart, `forget` revokes the keys."""
        self.spec = spec
        self.tuner = tuner
        self.overflow = False
        """Whether a call was refused because the context was full."""
        self.notices: list[str] = []
        """What the user should know of how the calls were served, each once."""
        self._engine = engine
        self._renderer = renderer
        self._tree = TokenTree(renderer) if renderer is not None else None
        self._serial = serial
        self._forget = forget
        self._calls: dict[int, Call] = {}
        self._begun = 0
        self._seeds = Seeds(spec.seed)
        self._names = Names(spec.episode_id)
        self._turns: set[Turn] = set()
        self._sessions: set[str] = set()
        self._closed = False
        self._first_prompts: dict[int, int] = {}

    @property
    def calls(self) -> tuple[Call, ...]:
        """The finished calls, by index; all of them once the recorder is closed."""
        return tuple(self._calls[index] for index in sorted(self._calls))

    def begin(self, request: ChatRequest, caller: Caller) -> Turn:
        """Start the calls of a request; raises ApiError when it cannot be served."""
        if self._closed:
            raise ApiError(401, "This episode is over.", code="episode_closed", retry=False)
        limit = self.spec.max_calls
        if limit is not None and self._begun + request.n > limit:
            raise ApiError(429, f"The episode has used its {limit} calls.", code="max_calls_exceeded", retry=False)
        for name in request.ignored:
            self.notice(f"{caller.agent}: '{name}' has no effect; no engine is asked for it.")
        if self.spec.disable_tools and request.tools:
            request = request.without_tools()
        chat_only = not self._engine.capabilities.token_ids
        return self._begin_chat(request, caller) if chat_only else self._begin_tokens(request, caller)

    async def close(self) -> None:
        """Revoke the keys, cancel what is under way, and free what the engine keeps for the episode."""
        self._closed = True
        self._forget()
        await asyncio.gather(*(turn.cancel() for turn in tuple(self._turns)))
        for session in sorted(self._sessions):
            try:
                await self._engine.release(session)
            except Exception as error:  # noqa: BLE001 - an engine is extension code; the records are complete without it
                self.notice(f"The engine could not release {session}: {error!r}")
        self._sessions.clear()

    def notice(self, text: str) -> None:
        """Say something once."""
        if text not in self.notices:
            self.notices.append(text)

    def _begin_tokens(self, request: ChatRequest, caller: Caller) -> Turn:
        tree, renderer, spec = self._tree, self._renderer, self.spec
        if tree is None or renderer is None:
            raise ApiError(503, "The engine takes token ids, but the gateway has no renderer to make them.", retry=False)
        placement = tree.place(request, caller.agent)
        limit = self._length_limit(placement)
        room = limit - len(placement.ids)
        if room < 1:
            self.overflow = True
            raise context_full(len(placement.ids), limit)
        trained = spec.trains(caller.target_tag)
        untrained = self._untrained(request, trained)
        sampling = self._sampling(request, caller, trained)
        stop_ids = tuple(sorted({*renderer.turn_ends, *sampling.stop_token_ids}))
        sampling = evolve(sampling, max_tokens=min(sampling.max_tokens, room), stop_token_ids=stop_ids)
        constraint = request.constraint if self._engine.capabilities.constrained else None
        session = f"{spec.episode_id}/{caller.agent}#{self._serial}"
        self._sessions.add(session)
        seeds = self._seeds.of(request, caller.agent, placement.ids.tobytes())
        turn = Turn(self._names.response(caller.agent, seeds[0]))
        lives: list[_Live] = []
        for choice, seed in enumerate(seeds):
            index = self._begun
            self._begun += 1
            if choice:
                # The choices share the prompt of the first.
                own = evolve(placement, parent=index - choice, kept=len(placement.ids), prompt_ids=placement.ids[:0])
                own = evolve(own, known=len(request.messages))
            else:
                own = placement
            plan = CallPlan(
                index=index,
                choice=choice,
                agent=caller.agent,
                target_tag=caller.target_tag,
                placement=own,
                request=Request(
                    id=f"{spec.episode_id}/{index}#{self._serial}",
                    session=session,
                    prompt_ids=placement.ids.tolist(),
                    sampling=evolve(sampling, seed=seed),
                    constraint=constraint,
                ),
                stops=request.stop,
                fills_context=sampling.max_tokens == room,
                untrained=untrained,
                messages=request.messages[own.known :],
                tools=request.tools if own.parent is None else (),
                wants_logprobs=request.logprobs,
                streams=request.stream,
                timeout_s=spec.llm_timeout_s,
                tool_call_id=self._names.tool_calls(caller.agent, seed),
            )
            tree.add_prompt(index, own)
            self._first_prompts[index] = self._first_prompt(own)
            parser = renderer.parser(placement.text, tools=request.calls_tools, parallel=request.parallel_tool_calls)
            finished = self._finisher(own, caller)
            lives.append(LiveCall(plan, self._engine, renderer, parser, turn.events.put_nowait, finished))
        self._start(turn, lives)
        return turn

    def _length_limit(self, placement: Placement) -> int:
        """Return the most ids that prompt and answer may have together."""
        spec, first = self.spec, self._first_prompt(placement)
        limits = [spec.max_model_len, self._engine.capabilities.max_model_len or spec.max_model_len]
        if spec.max_response_length is not None:
            limits.append(first + spec.max_response_length)
        if spec.max_prompt_length is not None and first > spec.max_prompt_length:
            limits.append(spec.max_prompt_length)
        return min(limits)

    def _first_prompt(self, placement: Placement) -> int:
        """Return the length of the prompt that the conversation began with."""
        return len(placement.ids) if placement.parent is None else self._first_prompts[placement.parent]

    def _begin_chat(self, request: ChatRequest, caller: Caller) -> Turn:
        trained = self.spec.trains(caller.target_tag)
        sampling = self._sampling(request, caller, trained)
        seeds = self._seeds.of(request, caller.agent, repr(request.messages).encode("utf-8", "surrogatepass"))
        turn = Turn(self._names.response(caller.agent, seeds[0]))
        lives: list[_Live] = []
        for choice, seed in enumerate(seeds):
            plan = ChatPlan(
                index=self._begun,
                choice=choice,
                agent=caller.agent,
                target_tag=caller.target_tag,
                request=request,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_tokens=sampling.max_tokens,
                seed=seed,
                untrained="no_token_ids",
                timeout_s=self.spec.llm_timeout_s,
            )
            self._begun += 1
            engine = cast("ChatEngine", self._engine)
            lives.append(ChatCall(plan, engine, turn.events.put_nowait, self._finisher(None, caller)))
        self._start(turn, lives)
        return turn

    def _start(self, turn: Turn, lives: Iterable[_Live]) -> None:
        self._turns.add(turn)
        for live in lives:
            run: Coroutine[Any, Any, None] = live.run()
            task = asyncio.create_task(run)
            task.add_done_callback(self._ender(turn, live))
            turn.tasks.append(task)

    def _ender(self, turn: Turn, live: _Live) -> Callable[[asyncio.Task[None]], None]:
        def end(task: asyncio.Task[None]) -> None:
            # A task that is cancelled before its first step never runs its own handlers.
            live.abandon()
            if all(other.done() for other in turn.tasks):
                self._turns.discard(turn)

        return end

    def _finisher(self, placement: Placement | None, caller: Caller) -> Callable[[Finished], None]:
        def finish(done: Finished) -> None:
            self._calls[done.call.index] = done.call
            self.overflow |= done.call.untrained == "context_length_exceeded"
            if self._tree is not None and placement is not None:
                self._tree.add_reply(placement, done.call, done.usable, done.closed_by)
            if done.malformed:
                self.notice(f"{caller.agent}: a tool call could not be read and stayed in the content.")
            if done.dropped:
                self.notice(f"{caller.agent}: only the first of several tool calls was returned (parallel_tool_calls: false).")

        return finish

    def _untrained(self, request: ChatRequest, trained: bool) -> str | None:
        if request.constraint is not None and not self._engine.capabilities.constrained:
            self.notice(f"The engine cannot constrain answers, so '{request.constraint['type']}' was asked for in vain.")
        if not trained:
            return "frozen_agent"
        if request.constraint is not None:
            return "constrained"
        return None if self._engine.capabilities.logprobs else "no_logprobs"

    def _sampling(self, request: ChatRequest, caller: Caller, trained: bool) -> Sampling:
        ours = evolve(self.spec.sampling, top_logprobs=request.top_logprobs)
        asked: Mapping[str, Any] = {
            name: value
            for name in ("temperature", "top_p", "top_k", "max_tokens")
            if (value := getattr(request, name)) is not None
        }
        if not trained:
            return evolve(ours, **asked)
        for name in ("temperature", "top_p", "top_k"):
            if name in asked and asked[name] != getattr(ours, name):
                self.notice(
                    f"{caller.agent}: '{name}' {asked[name]:g} gives way to the configured {getattr(ours, name):g}, "
                    "since trained calls are sampled as the configuration says."
                )
        return evolve(ours, max_tokens=min(ours.max_tokens, asked.get("max_tokens", ours.max_tokens)))
