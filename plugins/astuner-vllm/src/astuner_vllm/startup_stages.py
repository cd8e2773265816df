"""What a server does while it starts, from its log."""

from __future__ import annotations

from collections.abc import Mapping

STAGES: Mapping[str, str] = {
    "": "starting",
    "Starting to load model": "loading the model",
    "Model loading took": "compiling, and measuring its memory",
    "Capturing CUDA graphs": "capturing CUDA graphs",
    "init engine": "opening its port",
}
"""What vLLM writes when each stage begins, in their order."""


def find_stage(log: str) -> str:
    """Return the last stage that a log has reached."""
    return next(stage for text, stage in reversed(tuple(STAGES.items())) if text in log)
