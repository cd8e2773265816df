"""The formats in which families of models write tool calls, and how the format of a model is recognised."""

from astuner.model.rendering.tool_calls.styles import STYLES, recognise

__all__ = ["STYLES", "recognise"]
