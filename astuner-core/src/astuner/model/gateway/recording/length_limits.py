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
        limit, key = self._find_limit(placement, trained)
        if len(placement.ids) >= limit:
            raise context_full(len(placement.ids), limit, key=key)
        return limit - len(placement.ids)

    @property
    def context(self) -> int:
        """The most ids that any prompt and its answer may have together."""
        return self.spec.find_context(self.engine_limit)

    def begin(self, index: int, placement: Placement) -> None:
        """Record the prompt length of a call that begins."""
        self._first_prompts[index] = self._first_prompt(placement)

    def _find_limit(self, placement: Placement, trained: bool) -> tuple[int, str]:
        """Return the most ids that prompt and answer may have together, and the key that says so."""
        spec, first = self.spec, self._first_prompt(placement)
        limits = [(self.context, "rollout.max_model_len")]
        if trained and (most := spec.max_response_length) is not None:
            limits.append((first + most, f"data.max_response_length ({most}, after a first prompt of {first})"))
        if trained and (longest := spec.max_prompt_length) is not None and first > longest:
            limits.append((longest, "data.max_prompt_length"))
        return min(limits)

    def _first_prompt(self, placement: Placement) -> int:
        """Return the length of the prompt that the conversation began with."""
        return len(placement.ids) if placement.parent is None else self._first_prompts[placement.parent]
