"""Finding the places of an episode's prompts in its recorded streams, short ones at once and long ones in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from astuner.model.gateway.tree.raw_prompts import RawTree
from astuner.model.gateway.tree.token_tree import Placement, TokenTree
from astuner.model.rendering.errors import ApiError, context_full

if TYPE_CHECKING:
    from astuner.contract.schema import Ids
    from astuner.model.gateway.recording.length_limits import Lengths
    from astuner.model.gateway.recording.request import AcceptedRequest, ChatRequest
    from astuner.model.rendering import TemplateRenderer
    from astuner.model.rendering.encoding import Encode


CHARACTERS_PER_TOKEN = 8
"""Of a text that may fit; of a longer one, its beginning is encoded first."""

SLACK = 1.1
"""By how much the beginning of a text must exceed the context: its last tokens may be others than those of the whole text."""


@define(eq=False)
class PromptPlacer:
    """Places the prompts of one episode."""

    _renderer: TemplateRenderer
    _lengths: Lengths
    _tree: TokenTree = field(init=False)
    _raw: RawTree = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the trees."""
        self._tree, self._raw = TokenTree(self._renderer), RawTree(self._renderer)

    def choose_tree(self, request: ChatRequest) -> TokenTree | RawTree:
        """Return the tree that records the calls of a request."""
        return self._raw if request.prompts else self._tree

    def place(self, request: ChatRequest, agent: str) -> list[Placement]:
        """Return the place of each prompt; raises ApiError, or LongText if `place_long` is to be called in a thread."""
        return self._place(request, agent, self._renderer.encode_short)

    def place_long(self, request: ChatRequest, agent: str) -> list[Placement]:
        """Return the place of each prompt; raises ApiError, for most prompts that do not fit before all of it is encoded."""
        try:
            return self._place(request, agent, self._encode_long)
        except ApiError:
            self._tree.forget(request, agent)
            raise

    def find_rooms(self, accepted: AcceptedRequest, placements: list[Placement]) -> list[int]:
        """Return the maximum length of each prompt's answers; raises ApiError if there is no room at all."""
        try:
            return [self._lengths.find_room(placement, trained=accepted.trained) for placement in placements]
        except ApiError:
            # Nothing is kept of a conversation that is refused.
            self._tree.forget(accepted.request, accepted.caller.agent)
            raise

    def begin(self, index: int, request: ChatRequest, placement: Placement) -> None:
        """Let later requests continue from the prompt of a call that begins."""
        self.choose_tree(request).add_prompt(index, placement)
        self._lengths.begin(index, placement)

    def _place(self, request: ChatRequest, agent: str, encode: Encode) -> list[Placement]:
        context = self._lengths.context
        for prompt in request.prompts:
            if not isinstance(prompt, str) and len(prompt) >= context:
                raise context_full(len(prompt), context)
        if request.prompts:
            return [self._raw.place(prompt, agent, encode) for prompt in request.prompts]
        return [self._tree.place(request, agent, encode)]

    def _encode_long(self, text: str) -> Ids:
        context = self._lengths.context
        start = text[: CHARACTERS_PER_TOKEN * context]
        if len(start) < len(text) and (at_least := len(self._renderer.encode(start))) > SLACK * context:
            raise context_full(at_least, context, exact=False)
        return self._renderer.encode(text)
