"""Messages to token ids and back: chat templates, tokenizers and the formats of tool calls. Knows nothing of the gateway."""

from astuner.rendering.loading import load_renderer
from astuner.rendering.template_renderer import TemplateRenderer

__all__ = ["TemplateRenderer", "load_renderer"]
