"""The HTTP APIs that agents speak: each parses its bodies into one kind of request and writes answers in its own format."""

from __future__ import annotations

from astuner.model.gateway.dialects.anthropic_messages import ANTHROPIC_MESSAGES
from astuner.model.gateway.dialects.chat_completions import CHAT_COMPLETIONS
from astuner.model.gateway.dialects.completions import COMPLETIONS
from astuner.model.gateway.dialects.dialect import Dialect, Writer
from astuner.model.gateway.dialects.gemini_content import GEMINI_CONTENT, GEMINI_STREAM
from astuner.model.gateway.dialects.responses import RESPONSES

DIALECTS: tuple[Dialect, ...] = (CHAT_COMPLETIONS, COMPLETIONS, RESPONSES, ANTHROPIC_MESSAGES, GEMINI_CONTENT, GEMINI_STREAM)
"""The APIs that the gateway serves, one route each."""

__all__ = ["DIALECTS", "Dialect", "Writer"]
