"""Environments of episodes: their choice, their lifetime, and the loop in which one leads."""

from typing import TYPE_CHECKING

from astuner.shared.lazy_names import import_on_use

if TYPE_CHECKING:
    from astuner.episodes.rollout.environments.actions import find_last_box
    from astuner.episodes.rollout.environments.guarded_environment import EnvironmentFailed, GuardedEnvironment
    from astuner.episodes.rollout.environments.selection import check_shape, choose_environment

__all__ = ["EnvironmentFailed", "GuardedEnvironment", "check_shape", "choose_environment", "find_last_box"]

# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:
    __getattr__ = import_on_use(
        __name__,
        {
            "actions": "find_last_box",
            "guarded_environment": "EnvironmentFailed GuardedEnvironment",
            "selection": "check_shape choose_environment",
        },
    )
