"""The OpenAI-compatible endpoint that agents talk to, and that records every token they sample."""

from astuner.gateway.episode import EpisodeSpec
from astuner.gateway.recorder import EpisodeRecorder
from astuner.gateway.rendering import TemplateRenderer, load_renderer
from astuner.gateway.server import Gateway

__all__ = ["EpisodeRecorder", "EpisodeSpec", "Gateway", "TemplateRenderer", "load_renderer"]
