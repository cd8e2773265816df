"""Shows a model the beginning of a conversation and its last turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import Attribute, evolve, field, frozen
from attrs.validators import ge, optional

from astuner.contract.protocols import ContextRoom, EpisodeIdentity, Tracked, TrackerTraits
from astuner.contract.schema import Call, Message
from astuner.episodes.builtin.trackers.summaries import Summarise, make_llm_summariser
from astuner.episodes.builtin.trackers.timeline import TimelineTracker
from astuner.episodes.builtin.trackers.window_policy import WindowPolicy

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo


def _at_most_max_turns(options: Any, attribute: Attribute[Any], value: int) -> None:
    limit = getattr(options, "max_turns", None)
    if limit is not None and value > limit:
        raise ValueError(f"'{attribute.name}' must be at most max_turns ({limit}): {value}")


class SlidingWindowTracker:
    """When a conversation no longer fits, the turns between its beginning and its last ones are dropped.

    The window does not move until then, so that all turns within it are one row; samples are those of `timeline`.
    """

    traits = TrackerTraits(manages_context=True)

    @frozen(kw_only=True)
    class Options:
        """When the window moves, and how far."""

        enable_llm_memory_extraction: bool = False
        """Replace dropped turns by a summary from `context_tracker.alien_llm_model`; else by a note of one line."""
        max_turns: int | None = field(default=None, validator=optional(ge(1)))
        """Most turns shown; null shows as many as fit into the context."""
        keep_turns: int = field(default=2, validator=[ge(1), _at_most_max_turns])
        """Turns that stay when the window moves on; fewer where these do not fit."""

    def __init__(self, options: Options | None = None, *, summarise: Summarise | None = None, summary_tokens: int = 0) -> None:
        """`summarise` makes the summaries, of at most `summary_tokens`."""
        self._options = options or self.Options()
        self._policy = WindowPolicy(keep_turns=self._options.keep_turns, summarise=summarise, summary_tokens=summary_tokens)

    @classmethod
    def from_run(cls, options: Options, run_info: RunInfo) -> SlidingWindowTracker:
        """Make one; raises `NoEndpoint` if it needs an LLM and there is none."""
        config = run_info.config
        if not options.enable_llm_memory_extraction or config.rollout.use_agentscope_protocol:
            return cls(options)
        summarise = make_llm_summariser(run_info, "context_tracker.sliding_window.enable_llm_memory_extraction")
        return cls(options, summarise=summarise, summary_tokens=config.context_tracker.alien_llm_response_length)

    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Tracked:
        """Return one sample per path: one per window position."""
        return evolve(TimelineTracker().samples(calls, identity), notices=self._policy.notices)

    async def view(self, messages: Sequence[Message], room: ContextRoom) -> Sequence[Message]:
        """Return the beginning and the turns in the window."""
        shown, limit = self._policy.show(messages), self._options.max_turns
        few = limit is None or self._policy.count_turns(messages) <= limit
        if few and await room.count_tokens(shown) <= room.max_prompt_tokens:
            return shown
        return await self._policy.move(messages, room)

    def action(self, reply: Message) -> Message:
        """Return the reply."""
        return reply
