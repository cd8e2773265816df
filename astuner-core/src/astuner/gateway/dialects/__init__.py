"""The HTTP APIs that agents speak: each parses its bodies into one kind of request and writes answers in its own format."""

from __future__ import annotations

from astuner.gateway.dialects.anthropic_messages import AnthropicMessages
from astuner.gateway.dialects.chat_completions import ChatCompletions
from astuner.gateway.dialects.completions import Completions
from astuner.gateway.dialects.dialect import Dialect, Writer
from astuner.gateway.dialects.responses import Responses

DIALECTS: tuple[Dialect, ...] = (ChatCompletions(), Completions(), Responses(), AnthropicMessages())
"""The APIs that the gateway serves, one route each."""

__all__ = ["DIALECTS", "Dialect", "Writer"]
