"""Messages to token ids and back: chat templates, tokenizers and the formats of tool calls. Knows nothing of the gateway."""

from astuner.model.rendering.decoding import TextStream
from astuner.model.rendering.template_renderer import TemplateRenderer, load_renderer

__all__ = ["TemplateRenderer", "TextStream", "load_renderer"]
