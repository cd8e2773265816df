"""Finding the places of an episode's prompts in its recorded streams, short ones at once and long ones in a thread."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from attrs import define, field

from astuner.model.gateway.tree.raw_prompts import RawTree
from astuner.model.gateway.tree.token_tree import Placement, TokenTree
from astuner.model.rendering.errors import context_full
from astuner.model.rendering.text_encoders import TooManyTokens

if TYPE_CHECKING:
    from astuner.model.gateway.recording.length_limits import Lengths
    from astuner.model.gateway.recording.request import ChatRequest
    from astuner.model.rendering import TemplateRenderer
    from astuner.model.rendering.prompt_bound import CountBytes, PromptBound
    from astuner.model.rendering.text_encoders import Encode


@define(eq=False)
class PromptPlacer:
    """Places the prompts of one episode."""

    _renderer: TemplateRenderer
    _lengths: Lengths
    tree: TokenTree = field(init=False)
    raw: RawTree = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the trees."""
        self.tree, self.raw = TokenTree(self._renderer), RawTree(self._renderer)

    def place(self, request: ChatRequest, agent: str) -> list[Placement]:
        """Return the place of each prompt; raises ApiError, or LongText if `place_long` is to be called in a thread."""
        return self._place(request, agent, self._renderer.encode_short)

    @property
    def bound(self) -> PromptBound | None:
        """The bound on a prompt's tokens from below, where the tokenizer has one."""
        return self._renderer.prompt_bound

    def refuse_overlong(self, request: ChatRequest, count_bytes: CountBytes) -> None:
        """Raise ApiError if a request, or its outline, shows that a prompt does not fit; `count_bytes` counts those of a text."""
        bound, limit = self._renderer.prompt_bound, self._lengths.context
        if bound is None:
            return
        lengths = [bound.count_at_least(request.messages, request.tools, count_bytes)]
        lengths += [len(p) if isinstance(p, tuple) else bound.text.count_tokens(count_bytes(p)) for p in request.prompts]
        if max(lengths) > limit:
            raise context_full(max(lengths), limit, exact=False)

    def place_long(self, request: ChatRequest, agent: str) -> list[Placement]:
        """Return the place of each prompt; raises ApiError, as early as it is certain that a prompt does not fit."""
        limit = self._lengths.context
        try:
            return self._place(request, agent, partial(self._renderer.encode_within, limit=limit))
        except TooManyTokens as error:
            raise context_full(error.at_least, limit, exact=False) from None

    def _place(self, request: ChatRequest, agent: str, encode: Encode) -> list[Placement]:
        if request.prompts:
            return [self.raw.place(prompt, agent, encode) for prompt in request.prompts]
        return [self.tree.place(request, agent, encode)]
