"""The formats in which families of models write tool calls."""

from astuner.model.rendering.tool_calls.styles import STYLES

__all__ = ["STYLES"]
