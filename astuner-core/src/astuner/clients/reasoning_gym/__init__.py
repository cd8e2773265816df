"""reasoning-gym in child processes: making puzzles and scoring answers cannot harm or block the run there."""

from astuner.clients.reasoning_gym.program import is_installed, make_program

__all__ = ["is_installed", "make_program"]
