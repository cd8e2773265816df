"""Length limits for the prompts and answers of an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from astuner.model.rendering.errors import context_full

if TYPE_CHECKING:
    from astuner.model.gateway.recording.episode_spec import EpisodeSpec
    from astuner.model.gateway.tree.token_tree import Placement


@define(eq=False)
class Lengths:
    """Holds the calls of an episode to the limit of the context, and trained ones to those of first prompts and what follows."""

    spec: EpisodeSpec
    engine_limit: int | None
    """The engine's limit on prompt plus answer."""
    _first_prompts: dict[int, int] = field(factory=dict, init=False)

    def find_room(self, placement: Placement, *, trained: bool) -> int:
        """Return the maximum length of an answer in ids; raises ApiError if there is no room at all."""
        limit = self._limit(placement, trained)
        if len(placement.ids) >= limit:
            raise context_full(len(placement.ids), limit)
        return limit - len(placement.ids)

    @property
    def context(self) -> int:
        """The most ids that any prompt and its answer may have together."""
        return self.spec.find_context(self.engine_limit)

    def begin(self, index: int, placement: Placement) -> None:
        """Record the prompt length of a call that begins."""
        self._first_prompts[index] = self._first_prompt(placement)

    def _limit(self, placement: Placement, trained: bool) -> int:
        """Return the most ids that prompt and answer may have together."""
        spec, first = self.spec, self._first_prompt(placement)
        if not trained:
            return self.context
        limits = [self.context]
        if spec.max_response_length is not None:
            limits.append(first + spec.max_response_length)
        if spec.max_prompt_length is not None and first > spec.max_prompt_length:
            limits.append(spec.max_prompt_length)
        return min(limits)

    def _first_prompt(self, placement: Placement) -> int:
        """Return the length of the prompt that the conversation began with."""
        return len(placement.ids) if placement.parent is None else self._first_prompts[placement.parent]
