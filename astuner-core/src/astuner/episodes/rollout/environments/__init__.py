"""Environments of episodes: their choice, their lifetime, and the loop in which one leads."""

from astuner.episodes.rollout.environments.actions import find_last_box
from astuner.episodes.rollout.environments.guarded_environment import EnvironmentFailed, GuardedEnvironment
from astuner.episodes.rollout.environments.selection import check_shape, choose_environment

__all__ = [
    "EnvironmentFailed",
    "GuardedEnvironment",
    "check_shape",
    "choose_environment",
    "find_last_box",
]
