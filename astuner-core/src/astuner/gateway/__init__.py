"""The OpenAI-compatible endpoint that agents call; it records every token they sample."""

from astuner.gateway.recording.episode_spec import EpisodeSpec
from astuner.gateway.recording.recorder import EpisodeRecorder
from astuner.gateway.server import Gateway

__all__ = ["EpisodeRecorder", "EpisodeSpec", "Gateway"]
