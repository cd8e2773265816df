"""Shows a model a summary instead of the older part of a long conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import field, frozen
from attrs.validators import ge

from astuner.contract.protocols import ContextRoom
from astuner.contract.schema import Message
from astuner.episodes.builtin.trackers.summaries import make_llm_summariser, make_model_summariser
from astuner.episodes.builtin.trackers.window_policy import WindowTracker

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo


class AutoContextTracker(WindowTracker):
    """When a conversation grows too long, everything except its beginning and last turns becomes a summary.

    Summaries that the model under training writes are calls like any other, and trained; samples are those of `timeline`.
    """

    @frozen(kw_only=True)
    class Options:
        """When a summary is made, and by which model."""

        train_sp_action: bool = False
        """Let the model under training write the summaries, and train it on them; otherwise
        `context_tracker.alien_llm_model` does."""
        token_num_trigger_clip: int = field(default=8000, validator=ge(1))
        """Tokens at which the conversation is summarised; never more than fit into the context."""
        keep_turns: int = field(default=1, validator=ge(1))
        """Last turns that stay as they are; fewer where these do not fit."""

    @classmethod
    def from_run(cls, options: Options, run_info: RunInfo) -> AutoContextTracker:
        """Make one; raises `NoEndpoint` if it needs an LLM and there is none."""
        config = run_info.config
        tokens = config.context_tracker.alien_llm_response_length
        if options.train_sp_action:
            return cls(options, summarise=make_model_summariser(tokens), summary_tokens=tokens)
        if config.rollout.use_agentscope_protocol:
            return cls(options)
        summarise = make_llm_summariser(run_info, "context_tracker.auto_context with train_sp_action: false")
        return cls(options, summarise=summarise, summary_tokens=tokens)

    async def view(self, messages: Sequence[Message], room: ContextRoom) -> Sequence[Message]:
        """Return the conversation, or a window with a summary."""
        shown = self._policy.show(messages)
        if await room.count_tokens(shown) <= min(self._options.token_num_trigger_clip, room.max_prompt_tokens):
            return shown
        return await self._policy.move(messages, room)
