"""What a setting that the configuration leaves open became on the machine at hand, and what it costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from astuner.settings.config.rollout import Rollout

SEQUENCES_ON_CPU = 10
SEQUENCES_ON_GPU = 256
"""Most that `auto` becomes: beyond that, memory for keys and values is the limit."""


@frozen(kw_only=True)
class SettledValue:
    """A value that depends on the machine."""

    key: str
    """As in the YAML, without the root."""
    value: Any
    because: str
    """Why it has this value here, in a few words."""
    cost: str | None = None
    """For a setting that makes a run on this GPU about twice as slow as it could be, or worse: why, and what to do."""


def settle_sequences(rollout: Rollout, *, engines: int, gpu: bool) -> SettledValue:
    """Return `rollout.max_num_seqs` for each of the engines of a run."""
    key, share = "rollout.max_num_seqs", math.ceil(rollout.max_env_worker / max(1, engines))
    episodes = f"{rollout.max_env_worker} episodes (rollout.max_env_worker) on {engines} engine{'s' * (engines != 1)}"
    if rollout.max_num_seqs == "auto":
        if not gpu:
            return SettledValue(key=key, value=SEQUENCES_ON_CPU, because="the engine computes on a CPU")
        because = episodes if share <= SEQUENCES_ON_GPU else f"{episodes}, at most {SEQUENCES_ON_GPU} on each"
        return SettledValue(key=key, value=min(SEQUENCES_ON_GPU, share), because=because)
    cost = None
    if gpu and 2 * rollout.max_num_seqs <= min(SEQUENCES_ON_GPU, share):
        cost = f"{episodes} wait for each other, and the GPU is hardly used. Leave it out, or set it to {share}."
    return SettledValue(key=key, value=rollout.max_num_seqs, because="set in the configuration", cost=cost)
