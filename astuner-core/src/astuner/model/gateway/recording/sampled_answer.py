"""A recorded call as detectors of abnormal behaviour see it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from astuner.contract.protocols import Sampled

if TYPE_CHECKING:
    from astuner.model.gateway.recording.running_call import FinishedCall
    from astuner.model.rendering import TemplateRenderer

MARKUP = re.compile(
    r"tool.?(call|sep|use)|function.?call|python_tag|think|reason|arg_(key|value)|\[(ARGS|CALL_ID)\]", re.IGNORECASE
)
"""Special tokens of tool calls and reasoning, in the formats of Hermes, Llama, Mistral, DeepSeek, GLM…"""

HARMONY = frozenset({"<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>"})
"""gpt-oss uses these in every answer."""


def find_leaky_tokens(renderer: TemplateRenderer) -> Mapping[int, str]:
    """Return the special tokens of a renderer's tokenizer that must not appear inside an answer, by id."""
    added = getattr(getattr(renderer, "tokenizer", None), "added_tokens_decoder", {})
    special = {int(number): str(token) for number, token in added.items() if token.special}
    harmony = HARMONY if "<|channel|>" in special.values() else frozenset()
    return {number: token for number, token in special.items() if not MARKUP.search(token) and token not in harmony}


class AnswerExaminer:
    """Shows each answer that may be trained to a function that may end the episode."""

    def __init__(self, examine: Callable[[Sampled], str | None] | None, renderer: TemplateRenderer) -> None:
        """`examine` returns why the episode ends, or None; without a function every answer is fine."""
        self._examine, self._renderer = examine, renderer

    def find_fault(self, done: FinishedCall, tools: Sequence[Mapping[str, Any]]) -> str | None:
        """Return why the episode ends with this call, to which these tools were shown; None if it goes on."""
        if self._examine is None or done.call.untrained is not None:
            return None
        ids = done.call.output_ids.tolist()
        answer_ids = ids if done.closed_by is None else ids[:-1]
        text, leaked = self._renderer.decode(answer_ids), tuple(self._leaky[one] for one in answer_ids if one in self._leaky)
        return self._examine(Sampled(call=done.call, text=text, tools=tuple(tools), special_tokens=leaked))

    @cached_property
    def _leaky(self) -> Mapping[int, str]:
        return find_leaky_tokens(self._renderer)
