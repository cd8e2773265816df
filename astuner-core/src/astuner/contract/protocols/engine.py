"""The protocol of engines, which generate tokens, and what settings that are left open become on a machine."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from attrs import field, frozen
from attrs.validators import deep_mapping, instance_of

from astuner.contract.protocols.traits import FLAG, NAMES, promise, promise_attribute
from astuner.contract.schema import Capabilities, Chunk, Request

if TYPE_CHECKING:
    from astuner.settings.config.rollout import Rollout

Say = Callable[[str, Literal["info", "warning"]], None]
"""Shows the user a text at once, as `Control.notify` does."""
SEQUENCES_ON_CPU = 10
SEQUENCES_ON_GPU = 256
"""Most that `auto` becomes: beyond that, memory for keys and values is the limit."""


@frozen(kw_only=True)
class EngineTraits:
    """What an engine acts on and can do. The methods that a flag names are described with it."""

    honours: Mapping[str, tuple[str, ...]] = field(factory=dict, validator=deep_mapping(instance_of(str), NAMES))
    """Key paths below `astuner` that it acts on, whatever the backbone does, as shell patterns by the backbone's name; `*` means
    all other backbones."""
    names_own_model: bool = field(default=False, validator=FLAG)
    """Whether it needs no `model.path` in a run that trains nothing: its options name the model, or it has none."""
    reports_lacks: bool = promise("lacks")
    """Classmethod `lacks(options: Mapping) -> str | None`: what is missing or not set here, for backbones that take the first
    usable engine; `options` are as written."""
    settles_values: bool = promise("settle_values")
    """Classmethod `settle_values(run_info) -> Sequence[SettledValue]`, as of a backbone."""
    plans_memory: bool = promise("plan_memory")
    """Classmethod `plan_memory(run_info, question: MemoryQuestion) -> MemoryPlan`, as of a backbone."""
    reports_progress: bool = promise("report_to")
    """`report_to(say: Say)`: take what shows messages; called before `start`."""
    measures_busy_time: bool = promise_attribute("busy_s")
    """`busy_s: float`: the seconds so far in which at least one request was under way, for the metric `time/engine_s`."""
    gives_access: bool = promise("give_access")
    """`give_access() -> EngineAccess | None`: the way to its models with their present weights for other processes
    (`rollout.players`), equal to the last one if nothing has changed. Called between two rounds; None if there is none now, so
    that all requests go through this engine."""


class EngineAccess(Protocol):
    """Opens an engine in another process; it crosses processes pickled."""

    @property
    def same_machine(self) -> bool:
        """Whether it works on the machine of the original engine only."""

    def open(self) -> Engine:
        """Make an engine over the same models; it is started in the event loop that uses it, and never gets new weights.

        A request that it cannot begin is passed to the original engine.
        """


class Engine(Protocol):
    """Generates tokens. Lives where the rollouts run. Its class may have `traits` (`EngineTraits`)."""

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do."""

    async def start(self) -> None:
        """Be ready to generate; called once in the running event loop."""

    def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the tokens of a request as they come. Closing the iterator cancels the request."""

    async def release(self, session: str) -> None:
        """Release the resources of a session (its KV cache)."""

    async def update_weights(self, ref: Any, version: int) -> None:
        """Serve new weights: `ref` comes from the backbone that owns the engine (a module, a path)."""

    async def pause(self) -> None:
        """Start no new request until `resume`."""

    async def resume(self) -> None:
        """Start requests again after `pause`."""

    async def close(self) -> None:
        """Stop, and free all resources."""


MakeEngine = Callable[[], Engine]


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
