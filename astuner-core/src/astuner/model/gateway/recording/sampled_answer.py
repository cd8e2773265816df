"""A recorded call as detectors of abnormal behaviour see it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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


def build_sampled(
    done: FinishedCall, tools: Sequence[Mapping[str, Any]], renderer: TemplateRenderer, leaky: Mapping[int, str]
) -> Sampled:
    """Return what a finished call sampled; `leaky` is what `find_leaky_tokens` returns."""
    ids = done.call.output_ids.tolist()
    answer_ids = ids if done.closed_by is None else ids[:-1]
    return Sampled(
        call=done.call,
        text=renderer.decode(answer_ids),
        tools=tuple(tools),
        special_tokens=tuple(leaky[number] for number in answer_ids if number in leaky),
    )
