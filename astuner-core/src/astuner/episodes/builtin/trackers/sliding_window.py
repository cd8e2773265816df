"""Shows a model the beginning of a conversation and its last turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import Attribute, field, frozen
from attrs.validators import ge, optional

from astuner.contract.protocols import ContextRoom
from astuner.contract.schema import Message
from astuner.episodes.builtin.trackers.summaries import make_llm_summariser
from astuner.episodes.builtin.trackers.window_policy import WindowTracker

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo


def _at_most_max_turns(options: Any, attribute: Attribute[Any], value: int) -> None:
    limit = getattr(options, "max_turns", None)
    if limit is not None and value > limit:
        raise ValueError(f"'{attribute.name}' must be at most max_turns ({limit}): {value}")


class SlidingWindowTracker(WindowTracker):
    """When a conversation no longer fits, the turns between its beginning and its last ones are dropped.

    The window does not move until then, so that all turns within it are one row; samples are those of `timeline`.
    """

    @frozen(kw_only=True)
    class Options:
        """When the window moves, and how far."""

        enable_llm_memory_extraction: bool = False
        """Replace dropped turns by a summary from `context_tracker.alien_llm_model`; else by a note of one line."""
        max_turns: int | None = field(default=None, validator=optional(ge(1)))
        """Most turns shown; null shows as many as fit into the context."""
        keep_turns: int = field(default=2, validator=[ge(1), _at_most_max_turns])
        """Turns that stay when the window moves on; fewer where these do not fit."""

    @classmethod
    def from_run(cls, options: Options, run_info: RunInfo) -> SlidingWindowTracker:
        """Make one; raises `NoEndpoint` if it needs an LLM and there is none."""
        config = run_info.config
        if not options.enable_llm_memory_extraction or config.rollout.use_agentscope_protocol:
            return cls(options)
        summarise = make_llm_summariser(run_info, "context_tracker.sliding_window.enable_llm_memory_extraction")
        return cls(options, summarise=summarise, summary_tokens=config.context_tracker.alien_llm_response_length)

    async def view(self, messages: Sequence[Message], room: ContextRoom) -> Sequence[Message]:
        """Return the beginning and the turns in the window."""
        shown, limit = self._policy.show(messages), self._options.max_turns
        few = limit is None or self._policy.count_turns(messages) <= limit
        if few and await room.count_tokens(shown) <= room.max_prompt_tokens:
            return shown
        return await self._policy.move(messages, room)
