"""Renderers of real tokenizers; runs made up on disk."""

from made_renderers import make_renderer, renderer
from made_up_runs import write_run

__all__ = ["make_renderer", "renderer", "write_run"]
