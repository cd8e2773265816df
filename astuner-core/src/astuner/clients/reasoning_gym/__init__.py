"""reasoning-gym in child processes: puzzles are made and answers scored where neither can harm or block the run."""

from astuner.clients.reasoning_gym.program import is_installed, make_program

__all__ = ["is_installed", "make_program"]
