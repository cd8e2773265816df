"""reasoning-gym in child processes: puzzles are made and answers scored where neither can hurt, or hold up, the run."""

from astuner.clients.reasoning_gym.program import is_installed, make_program

__all__ = ["is_installed", "make_program"]
