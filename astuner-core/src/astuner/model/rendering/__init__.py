"""Messages to token ids and back: chat templates, tokenizers and the formats of tool calls. Knows nothing of the gateway."""

from astuner.model.rendering.decoding import TextStream
from astuner.model.rendering.loading import load_renderer
from astuner.model.rendering.template_renderer import TemplateRenderer

__all__ = [
    "TemplateRenderer",
    "TextStream",
    "load_renderer",
]
