"""Examines the answers of an episode as they are recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astuner.contract.protocols import Sampled
    from astuner.model.gateway.recording.running_call import FinishedCall
    from astuner.model.rendering import TemplateRenderer


class AnswerExaminer:
    """Shows each answer that may be trained to a function that may end the episode."""

    def __init__(self, examine: Callable[[Sampled], str | None] | None, renderer: TemplateRenderer) -> None:
        """`examine` returns why the episode ends, or None; without a function every answer is fine."""
        self._examine, self._renderer = examine, renderer

    def find_fault(self, done: FinishedCall, tools: Sequence[Mapping[str, Any]]) -> str | None:
        """Return why the episode ends with this call, to which these tools were shown; None if it goes on."""
        if self._examine is None or done.call.untrained is not None:
            return None
        from astuner.model.gateway.recording.sampled_answer import build_sampled

        return self._examine(build_sampled(done, tools, self._renderer, self._leaky))

    @cached_property
    def _leaky(self) -> Mapping[int, str]:
        from astuner.model.gateway.recording.sampled_answer import find_leaky_tokens

        return find_leaky_tokens(self._renderer)
