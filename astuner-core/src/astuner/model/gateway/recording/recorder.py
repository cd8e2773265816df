"""Records the calls of one episode."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from attrs import evolve

from astuner.contract.schema import Call, Message, Request
from astuner.model.gateway.recording.call_failures import CallFailures
from astuner.model.gateway.recording.call_policy import CallPolicy
from astuner.model.gateway.recording.call_seeds import CallIds, Seeds
from astuner.model.gateway.recording.chat_call import ChatCall, ChatEngine, ChatPlan, make_chat_key
from astuner.model.gateway.recording.length_limits import Lengths
from astuner.model.gateway.recording.messages import MessageReader
from astuner.model.gateway.recording.model_call import CallPlan, LiveCall
from astuner.model.gateway.recording.named_responses import Conversations
from astuner.model.gateway.recording.prompt_placer import PromptPlacer
from astuner.model.gateway.recording.request_order import RequestOrder
from astuner.model.gateway.recording.running_call import FinishedCall, RunningCall
from astuner.model.gateway.recording.sampled_answer import build_sampled, find_leaky_tokens
from astuner.model.gateway.recording.turn import Turn
from astuner.model.gateway.tree.raw_prompts import PlainParser, RawTree
from astuner.model.gateway.tree.token_tree import Placement, TokenTree
from astuner.model.rendering.errors import ApiError, bad_request
from astuner.model.rendering.losses import find_changes
from astuner.model.rendering.text_encoders import LongText

if TYPE_CHECKING:
    from astuner.contract.protocols import Engine
    from astuner.model.gateway.api_keys import Caller
    from astuner.model.gateway.recording.episode_spec import EpisodeSpec
    from astuner.model.gateway.recording.request import ChatRequest
    from astuner.model.gateway.tuner import GatewayTuner
    from astuner.model.rendering import TemplateRenderer
    from astuner.model.rendering.prompt_bound import CountBytes
    from astuner.model.rendering.reply_parser import ReplyParser


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
        self.failures = CallFailures()
        """The failures of calls that agents have not recovered from."""
        self.read_messages = MessageReader()
        """Reads the messages of a request."""
        self.notices: list[str] = []
        """Notices for the user about how calls were served, each once."""
        self._engine = engine
        self._renderer = renderer
        self.order = RequestOrder(pool)
        """Admits the requests: `begin`, `begin_long` and `count` want one that is admitted."""
        self._conversations = Conversations()
        self._serial = serial
        self._forget = forget
        self._calls: dict[int, Call] = {}
        self._begun = 0
        self._steps: Counter[str] = Counter()
        """Trained calls that agents have begun."""
        self._seeds = Seeds(spec.seed)
        self._ids = CallIds(spec.episode_id)
        self._turns: set[Turn] = set()
        self._sessions: set[str] = set()
        self._closed = False
        self._lengths = Lengths(spec, engine.capabilities.max_model_len)
        self._prompts = None if renderer is None else PromptPlacer(renderer, self._lengths)
        self._policy = CallPolicy(spec, engine.capabilities, self.notice)
        self._leaky: Mapping[int, str] | None = None
        self._ended_by: str | None = None

    @property
    def calls(self) -> tuple[Call, ...]:
        """The finished calls, by index; all of them once the recorder is closed."""
        return tuple(self._calls[index] for index in sorted(self._calls))

    def begin(self, request: ChatRequest, caller: Caller) -> Turn:
        """Start the calls of a request.

        Raises ApiError when it cannot be served, and LongText, with nothing changed, if `begin_long` has to do it.
        """
        self._check_open()
        caller = caller.retarget(request.target_tag)
        try:
            request = self._prepare(request, caller)
            if self._speaks_chat:
                return self._begin_chat(request, caller, make_chat_key(request))
            return self._begin_tokens(request, caller, self._placer.place(request, caller.agent))
        except ApiError as error:
            self.failures.note_error(caller.name, error, self._begun)
            raise

    async def begin_long(self, request: ChatRequest, caller: Caller) -> Turn:
        """Start the calls of an admitted request whose prompts are made in a thread; raises ApiError as `begin` does."""
        self._check_open()
        caller = caller.retarget(request.target_tag)
        try:
            request = self._prepare(request, caller)
            if self._speaks_chat:
                key = await self.order.run(partial(make_chat_key, request))
                self._check_open()
                return self._begin_chat(request, caller, key)
            placements = await self.order.run(partial(self._placer.place_long, request, caller.agent))
            self._check_open()
            return self._begin_tokens(request, caller, placements)
        except ApiError as error:
            self.failures.note_error(caller.name, error, self._begun)
            raise

    async def refuse_overlong(self, outlined: ChatRequest, count_bytes: CountBytes, caller: Caller) -> None:
        """Raise ApiError if the outline of an admitted request shows that it cannot be served."""
        self._check_open()
        caller = caller.retarget(outlined.target_tag)
        try:
            await self.order.run(partial(self._placer.refuse_overlong, self._prepare(outlined, caller), count_bytes))
        except ApiError as error:
            self.failures.note_error(caller.name, error, self._begun)
            raise

    async def refuse_uncountable(self, outlined: ChatRequest, count_bytes: CountBytes) -> None:
        """Raise ApiError if the outline of an admitted request shows that `count` would."""
        await self.order.run(partial(self._placer.refuse_overlong, self._remove_tools(outlined), count_bytes))

    def find_outline_bound(self) -> tuple[CountBytes, int] | None:
        """Return what counts the bytes of texts, and the most items of a list that matter; None if no outline tells what fits.

        The first time takes long.
        """
        bound = None if self._speaks_chat or self._prompts is None else self._prompts.bound
        return None if bound is None else (bound.text.count_bytes, self._lengths.context + 1)

    @property
    def _placer(self) -> PromptPlacer:
        if self._prompts is None:
            raise ApiError(503, "The engine takes token ids, but the gateway has no renderer to make them.", retry=False)
        return self._prompts

    @property
    def _speaks_chat(self) -> bool:
        return not self._engine.capabilities.token_ids

    def _check_open(self) -> None:
        """Raise ApiError once the episode is over."""
        if self._closed:
            raise ApiError(401, "This episode is over.", code="episode_closed", retry=False)
        if self._ended_by is not None:
            raise ApiError(403, f"This episode was ended: {self._ended_by}", code="episode_terminated", retry=False)

    def _trains(self, caller: Caller) -> bool:
        return all(map(self.spec.trains, caller.targets))

    def _check_steps(self, request: ChatRequest, caller: Caller) -> None:
        """Raise ApiError if a trained agent has no call left."""
        limit = self.spec.max_steps
        if limit is None or not self._trains(caller) or self._steps[caller.agent] + request.choices <= limit:
            return
        text = (
            f"The agent {caller.agent!r} asks for more model calls than rollout.multi_turn.max_steps = {limit} allows it in an "
            "episode. End the episode before that, or raise this key if the task needs more calls."
        )
        # Not 429: clients would wait and ask again.
        raise ApiError(403, text, code="max_steps_exceeded", retry=False)

    def _prepare(self, request: ChatRequest, caller: Caller) -> ChatRequest:
        """Return the request with the messages that it continues, and without what is not served; raises ApiError."""
        self._check_steps(request, caller)
        for name in request.ignored:
            self.notice(f"{caller.name}: '{name}' has no effect; engines do not support it.")
        if request.hosted_tools:
            names = ", ".join(request.hosted_tools)
            self.notice(f"{caller.name}: tools that the servers of its API would run are not offered to the model: {names}.")
        if request.previous is not None:
            request = request.with_earlier(self._conversations.collect_until(request.previous, self._calls))
        return self._remove_tools(request)

    def _remove_tools(self, request: ChatRequest) -> ChatRequest:
        return request.without_tools() if self.spec.disable_tools and request.tools else request

    async def count(self, request: ChatRequest, caller: Caller) -> int:
        """Return the number of tokens in an admitted request's prompt without recording it; raises ApiError."""
        if self._speaks_chat:
            raise bad_request("The engine takes no token ids, so there are none to count.")
        request = self._remove_tools(request)
        try:
            placements = self._placer.place(request, caller.agent)
        except LongText:
            placements = await self.order.run(partial(self._placer.place_long, request, caller.agent))
        return len(placements[0].ids)

    async def close(self) -> None:
        """Revoke the keys, cancel running calls, and release the engine's sessions of the episode."""
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
        """Add a notice, once."""
        if text not in self.notices:
            self.notices.append(text)

    def _begin_tokens(self, request: ChatRequest, caller: Caller, placements: Sequence[Placement]) -> Turn:
        for text in () if request.prompts else find_changes(self._placer.tree.renderer.shape, request.messages):
            self.notice(text)
        trained = self._trains(caller)
        rooms = [self._lengths.find_room(placement, trained=trained) for placement in placements]
        draws = [self._seeds.draw(request, caller.agent, placement.ids.tobytes()) for placement in placements]
        turn = Turn(self._ids.make_response_id(caller.agent, draws[0].seeds[0]), draws)
        if request.preamble is not None:
            self._conversations.name_response(turn.id, self._begun, request.preamble)
        lives: list[RunningCall[Any]] = []
        for placement, room, draw in zip(placements, rooms, draws, strict=True):
            lives += self._make_calls(request, caller, placement, room, draw.seeds, turn, len(lives))
        self._start(turn, lives, caller)
        return turn

    def _make_calls(
        self, request: ChatRequest, caller: Caller, placement: Placement, room: int, seeds: Sequence[int], turn: Turn, first: int
    ) -> list[RunningCall[Any]]:
        """Make the calls for one prompt: a choice for each seed, numbered from the first."""
        spec, renderer = self.spec, cast("TemplateRenderer", self._renderer)
        tree: TokenTree | RawTree = self._placer.raw if request.prompts else self._placer.tree
        if request.prompts:
            request = evolve(request, messages=_as_message(renderer.decode(placement.prompt_ids.tolist())))
        trained = self._trains(caller)
        constraint = self._policy.choose_constraint(request, caller.name, trained)
        untrained = self._policy.find_untrained_reason(constraint, trained)
        sampling = self._policy.choose_sampling(request, caller.name, trained)
        stop_ids = tuple(sorted({*renderer.turn_ends, *sampling.stop_token_ids}))
        most = min(sampling.max_tokens, room)
        session = f"{spec.episode_id}/{caller.agent}#{self._serial}"
        self._sessions.add(session)
        lives: list[RunningCall[Any]] = []
        for choice, seed in enumerate(seeds):
            index = self._begun
            self._begun += 1
            if choice:
                # The choices share the prompt of the first.
                own = evolve(placement, parent=index - choice, kept=len(placement.ids), prompt_ids=placement.ids[:0].copy())
                own = evolve(own, known=len(request.messages))
            else:
                own = placement
            plan = CallPlan(
                index=index,
                choice=first + choice,
                agent=caller.agent,
                target_tag=caller.target_tag,
                placement=own,
                request=Request(
                    id=f"{spec.episode_id}/{index}#{self._serial}",
                    session=session,
                    prompt_ids=placement.ids.tolist(),
                    sampling=evolve(sampling, max_tokens=most, stop_token_ids=stop_ids, seed=seed),
                    constraint=constraint,
                    # Stop strings are searched for in the streamed text.
                    stream=request.stream or bool(request.stop),
                ),
                stops=request.stop,
                fills_context=most == room,
                untrained=untrained,
                messages=request.messages[own.known :],
                tools=request.tools if own.parent is None else (),
                wants_logprobs=request.logprobs,
                streams=request.stream,
                timeout_s=spec.llm_timeout_s,
                tool_call_id=self._ids.number_tool_calls(caller.agent, seed),
            )
            tree.add_prompt(index, own)
            self._conversations.begin(index, plan.messages, own)
            self._lengths.begin(index, own)
            if request.prompts:
                parser: ReplyParser = PlainParser()
            else:
                parser = renderer.parser(placement.text, tools=request.callable_tools, parallel=request.parallel_tool_calls)
            finished = self._make_finisher(tree, own, caller, (*request.tools, *request.found_tools))
            lives.append(LiveCall(plan, turn.events.put_nowait, finished, self._engine, renderer, parser))
        return lives

    def _begin_chat(self, request: ChatRequest, caller: Caller, key: bytes) -> Turn:
        if request.prompts:
            raise bad_request("The engine speaks chat only, so it takes no raw prompt; send messages.", "prompt")
        trained = self._trains(caller)
        sampling = self._policy.choose_sampling(request, caller.name, trained)
        draw = self._seeds.draw(request, caller.agent, key)
        turn = Turn(self._ids.make_response_id(caller.agent, draw.seeds[0]), [draw])
        if request.preamble is not None:
            self._conversations.name_response(turn.id, self._begun, request.preamble)
        lives: list[RunningCall[Any]] = []
        for choice, seed in enumerate(draw.seeds):
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
                streams=request.stream,
            )
            self._conversations.begin(self._begun, request.messages)
            self._begun += 1
            finished = self._make_finisher(None, None, caller, ())
            lives.append(ChatCall(plan, turn.events.put_nowait, finished, cast("ChatEngine", self._engine)))
        self._start(turn, lives, caller)
        return turn

    def _start(self, turn: Turn, lives: Sequence[RunningCall[Any]], caller: Caller) -> None:
        def end() -> None:
            self._turns.discard(turn)
            for draw in turn.draws if turn.unanswered else ():
                self._seeds.give_back(draw)

        self._steps[caller.agent] += len(lives) if self._trains(caller) else 0
        self._turns.add(turn)
        turn.start(lives, end)

    def _make_finisher(
        self,
        tree: TokenTree | RawTree | None,
        placement: Placement | None,
        caller: Caller,
        tools: Sequence[Mapping[str, Any]],
    ) -> Callable[[FinishedCall], None]:
        def finish(done: FinishedCall) -> None:
            self._calls[done.call.index] = done.call
            if done.error is None:
                self.failures.note_answer(caller.name, done.call.index)
            else:
                self.failures.note_error(caller.name, done.error, self._begun)
            if tree is not None and placement is not None:
                self.order.change(partial(tree.add_reply, placement, done.call, done.usable, done.closed_by))
            if done.dropped:
                why = "'parallel_tool_calls' is false, or the model's chat template shows only one"
                self.notice(f"{caller.name}: only the first of several tool calls was returned: {why}.")
            self._examine(done, tools)

        return finish

    def _examine(self, done: FinishedCall, tools: Sequence[Mapping[str, Any]]) -> None:
        examine, renderer = self.spec.examine, self._renderer
        if examine is None or renderer is None or done.call.untrained is not None:
            return
        if self._leaky is None:
            self._leaky = find_leaky_tokens(renderer)
        found = examine(build_sampled(done, tools, renderer, self._leaky))
        self._ended_by = self._ended_by or found


def _as_message(text: str) -> tuple[Message, ...]:
    """Return the text added by a raw prompt, as a message for the records."""
    return ({"role": "user", "content": text},) if text else ()
