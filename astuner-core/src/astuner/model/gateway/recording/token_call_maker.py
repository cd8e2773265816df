"""Makes the calls of an episode whose engine takes and gives token ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from attrs import define, evolve, field

from astuner.contract.schema import Message, Request
from astuner.model.gateway.recording.changed_history import find_rewritten
from astuner.model.gateway.recording.messages import join_answers
from astuner.model.gateway.recording.model_call import CallPlan, LiveCall
from astuner.model.gateway.recording.turn import Turn
from astuner.model.gateway.tree.raw_prompts import PlainParser
from astuner.model.rendering.losses import find_changes

if TYPE_CHECKING:
    from astuner.model.gateway.recording.call_ledger import CallLedger
    from astuner.model.gateway.recording.call_policy import CallPolicy
    from astuner.model.gateway.recording.call_seeds import CallIds, Seeds
    from astuner.model.gateway.recording.engine_sessions import EngineSessions
    from astuner.model.gateway.recording.prompt_placer import PromptPlacer
    from astuner.model.gateway.recording.request import AcceptedRequest, ChatRequest
    from astuner.model.gateway.recording.request_order import RequestOrder
    from astuner.model.gateway.recording.running_call import FinishedCall
    from astuner.model.gateway.recording.sampled_answer import AnswerExaminer
    from astuner.model.gateway.tree.token_tree import Placement
    from astuner.model.rendering import TemplateRenderer
    from astuner.model.rendering.reply_parser import ReplyParser


@define(eq=False, kw_only=True)
class TokenCallMaker:
    """The place of a prompt is its position in the token tree."""

    renderer: TemplateRenderer
    ledger: CallLedger
    order: RequestOrder
    prompts: PromptPlacer
    policy: CallPolicy
    seeds: Seeds
    ids: CallIds
    sessions: EngineSessions
    examiner: AnswerExaminer
    timeout_s: float | None
    names_changes: bool
    _last: dict[str, tuple[tuple[Message, ...], Message]] = field(factory=dict, init=False)
    """The last request of each agent, and its answer."""

    def place(self, accepted: AcceptedRequest) -> list[Placement]:
        """Return the place of each prompt; raises ApiError, or LongText if `place_long` is to be called in a thread."""
        return self.prompts.place(accepted.request, accepted.caller.agent)

    def place_long(self, accepted: AcceptedRequest) -> list[Placement]:
        """Return the place of each prompt; raises ApiError."""
        return self.prompts.place_long(accepted.request, accepted.caller.agent)

    def make(self, accepted: AcceptedRequest, places: list[Placement]) -> tuple[Turn, list[LiveCall]]:
        """Make a call for each choice of each prompt; raises ApiError if a prompt does not fit."""
        request, agent = accepted.request, accepted.caller.agent
        changes = () if request.prompts else find_changes(self.renderer.shape, request.messages)
        for text in (*changes, *(self.renderer.tool_notices if request.tools else ())):
            self.ledger.notice(text)
        before, reply = self._last.get(accepted.caller.name, ((), {}))
        shows_reasoning = partial(self.renderer.shows_reasoning, kwargs=request.template_kwargs)
        for text in find_rewritten(before, reply, request.messages, shows_reasoning) if self.names_changes else ():
            self.ledger.notice(f"{accepted.caller.name}: {text}")
        rooms = self.prompts.find_rooms(accepted, places)
        draws = [self.seeds.draw(request, agent, placement.ids.tobytes()) for placement in places]
        turn = Turn(self.ids.make_response_id(agent, draws[0].seeds[0]), draws)
        self.ledger.name_response(turn.id, request.preamble)
        calls: list[LiveCall] = []
        for placement, room, draw in zip(places, rooms, draws, strict=True):
            calls += self._make_calls(accepted, placement, room, draw.seeds, len(calls), turn)
        return turn, calls

    def count(self, places: list[Placement]) -> int:
        """Return the number of tokens in the first prompt."""
        return len(places[0].ids)

    async def release(self) -> None:
        """Release the engine's sessions of the episode."""
        await self.sessions.release(self.ledger.notice)

    def _make_calls(
        self, accepted: AcceptedRequest, prompt: Placement, room: int, seeds: Sequence[int], first_choice: int, turn: Turn
    ) -> Iterator[LiveCall]:
        """Yield a call for each seed of one prompt; `first_choice` is the number of the first among those of the request."""
        request, caller, trained = accepted.request, accepted.caller, accepted.trained
        messages = request.messages
        if request.prompts:
            text = self.renderer.decode(prompt.prompt_ids.tolist())
            messages = ({"role": "user", "content": text},) if text else ()
        constraint = self.policy.choose_constraint(request, caller.name, trained)
        sampling = self.policy.choose_sampling(request, caller.name, trained)
        stop_ids = tuple(sorted({*self.renderer.turn_ends, *sampling.stop_token_ids}))
        max_tokens, session = min(sampling.max_tokens, room), self.sessions.open(caller.agent)
        for choice, seed in enumerate(seeds):
            index = self.ledger.number_call()
            placement = prompt if choice == 0 else _share_prompt(prompt, index - choice, len(messages))
            plan = CallPlan(
                index=index,
                choice=first_choice + choice,
                agent=caller.agent,
                target_tag=caller.target_tag,
                placement=placement,
                request=Request(
                    id=self.sessions.name_request(index),
                    session=session,
                    prompt_ids=prompt.ids.tolist(),
                    sampling=evolve(sampling, max_tokens=max_tokens, stop_token_ids=stop_ids, seed=seed),
                    constraint=constraint,
                    # Stop strings are searched for in the streamed text.
                    stream=request.stream or bool(request.stop),
                    target_tag=caller.target_tag,
                ),
                stops=request.stop,
                fills_context=max_tokens == room,
                untrained=self.policy.find_untrained_reason(constraint, trained),
                messages=messages[placement.known :],
                tools=request.tools if placement.parent is None else (),
                wants_logprobs=request.logprobs,
                streams=request.stream,
                timeout_s=self.timeout_s,
                tool_call_id=self.ids.number_tool_calls(caller.agent, seed),
            )
            self.prompts.begin(index, request, placement)
            self.ledger.conversations.begin(index, plan.messages, placement)
            parser = self._make_parser(request, placement)
            finish = partial(self._finish, accepted, placement)
            yield LiveCall(plan, turn.events.put_nowait, finish, self.sessions.engine, self.renderer, parser)

    def _make_parser(self, request: ChatRequest, placement: Placement) -> ReplyParser:
        if request.prompts:
            return PlainParser(placement.text)
        return self.renderer.parser(placement.text, tools=request.callable_tools, parallel=request.parallel_tool_calls)

    def _finish(self, accepted: AcceptedRequest, placement: Placement, done: FinishedCall) -> None:
        request = accepted.request
        self.ledger.finish(accepted.caller, done)
        tree = self.prompts.choose_tree(request)
        self.order.change(partial(tree.add_reply, placement, done.call, done.usable, done.closed_by))
        if done.error is None:
            # An answer that was begun is one with its beginning.
            own = len(request.messages) - request.continues
            reply = join_answers([*request.messages[own:], done.call.reply])[0]
            self._last[accepted.caller.name] = (request.messages[:own], reply)
        fault = self.examiner.find_fault(done, (*request.tools, *request.found_tools))
        self.ledger.ended_by = self.ledger.ended_by or fault


def _share_prompt(placement: Placement, first: int, messages: int) -> Placement:
    """Return the place of a further choice, which adds nothing to the prompt of the first one, a call with this index."""
    return evolve(placement, parent=first, kept=len(placement.ids), prompt_ids=placement.ids[:0].copy(), known=messages)
