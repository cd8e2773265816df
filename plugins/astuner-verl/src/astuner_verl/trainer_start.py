"""Starting the actor with verl's trainer, for a run or a warm start. Imports neither verl nor Ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from astuner_verl.process_environment import Device

if TYPE_CHECKING:
    from astuner_verl.host import Host
    from astuner_verl.packed_loss import PackedLoss
    from astuner_verl.watch import Watch

STARTING = "starting takes a minute or more"


def count_workers(native: Mapping[str, Any]) -> int:
    """Return the workers of a resolved configuration."""
    return int(native["trainer"]["nnodes"] * native["trainer"]["n_gpus_per_node"])


def describe_workers(native: Mapping[str, Any], device: Device) -> str:
    """Return how many workers compute, and on what."""
    return f"verl on {device}: {count_workers(native)} worker(s)"


def make_host(kind: type[Host], native: dict[str, Any], loss: PackedLoss, *, records: bool = False) -> Any:
    """Return the handle of a new actor; `start` starts its trainer."""
    import ray

    return ray.remote(kind).options(num_cpus=0).remote(native, loss, records=records)


def share_prefixes(host: Any, watch: Watch, warn: Callable[[str], object]) -> None:
    """Let rows share prefixes, and warn if the numbers differ from verl's own."""
    shares, difference = watch.get(host.share_prefixes.remote(), "comparing passes that share prefixes")
    if not shares:
        warn(
            f"passes that share prefixes differ by {difference:.1e} from verl's own for this model, so each row is computed whole"
        )
