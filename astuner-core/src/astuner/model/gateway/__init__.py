"""The OpenAI-compatible endpoint that agents call; it records every token they sample."""

from astuner.model.gateway.recording.episode_spec import EpisodeSpec, Rewriter
from astuner.model.gateway.recording.recorder import EpisodeRecorder
from astuner.model.gateway.server import Gateway

__all__ = ["EpisodeRecorder", "EpisodeSpec", "Gateway", "Rewriter"]
