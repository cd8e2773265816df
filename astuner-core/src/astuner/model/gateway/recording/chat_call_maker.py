"""Makes the calls of an episode whose engine speaks chat and takes no token ids."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import define

from astuner.model.gateway.recording.chat_call import ChatCall, ChatEngine, ChatPlan, make_chat_key
from astuner.model.gateway.recording.turn import Turn
from astuner.model.rendering.errors import bad_request

if TYPE_CHECKING:
    from astuner.model.gateway.recording.call_ledger import CallLedger
    from astuner.model.gateway.recording.call_policy import CallPolicy
    from astuner.model.gateway.recording.call_seeds import CallIds, Seeds
    from astuner.model.gateway.recording.request import AcceptedRequest


@define(eq=False, kw_only=True)
class ChatCallMaker:
    """The place of a prompt is a key that tells it from others."""

    engine: ChatEngine
    ledger: CallLedger
    policy: CallPolicy
    seeds: Seeds
    ids: CallIds
    timeout_s: float | None

    def place(self, accepted: AcceptedRequest) -> bytes:
        """Return the key of the messages."""
        return make_chat_key(accepted.request)

    place_long = place

    def make(self, accepted: AcceptedRequest, places: bytes) -> tuple[Turn, list[ChatCall]]:
        """Make a call for each choice; raises ApiError for a raw prompt."""
        request, caller = accepted.request, accepted.caller
        if request.prompts:
            raise bad_request("The engine speaks chat only, so it takes no raw prompt; send messages.", "prompt")
        sampling = self.policy.choose_sampling(request, caller.name, accepted.trained)
        draw = self.seeds.draw(request, caller.agent, places)
        turn = Turn(self.ids.make_response_id(caller.agent, draw.seeds[0]), [draw])
        self.ledger.name_response(turn.id, request.preamble)
        finish = partial(self.ledger.finish, caller)
        calls: list[ChatCall] = []
        for choice, seed in enumerate(draw.seeds):
            plan = ChatPlan(
                index=self.ledger.number_call(),
                choice=choice,
                agent=caller.agent,
                target_tag=caller.target_tag,
                request=request,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_tokens=sampling.max_tokens,
                seed=seed,
                untrained="no_token_ids" if accepted.trained else "frozen_agent",
                timeout_s=self.timeout_s,
                streams=request.stream,
            )
            self.ledger.conversations.begin(plan.index, request.messages)
            calls.append(ChatCall(plan, turn.events.put_nowait, finish, self.engine))
        return turn, calls

    def count(self, places: Any) -> int:
        """Refuse."""
        raise bad_request("The engine takes no token ids, so there are none to count.")

    async def release(self) -> None:
        """Do nothing: each call is a request of its own."""
