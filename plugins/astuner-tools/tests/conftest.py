"""The command line in a process of its own; renderers of real tokenizers; runs made up on disk."""

from command_process import astuner
from made_renderers import make_renderer, renderer
from made_up_runs import stored, write_run

__all__ = ["astuner", "make_renderer", "renderer", "stored", "write_run"]
