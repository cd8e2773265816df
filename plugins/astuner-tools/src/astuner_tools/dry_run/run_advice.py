"""What a dry run says beyond its bounds: a measured time, and defaults for other machines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from astuner.episodes.transcript.terminal_text import format_seconds
from astuner.runs.store.metric_rows import read_metric_rows
from astuner.settings.memory_estimate.parts import Hardware

if TYPE_CHECKING:
    from astuner.settings.config.loading import LoadedConfig

SIZES = ("data.train_batch_size", "rollout.num_repeat", "rollout.max_model_len", "trainer_common.total_training_steps")
"""Keys whose defaults are for a machine with GPUs."""


def estimate_time(metrics: Path, episodes: int) -> str | None:
    """Return how long these episodes would take at the rate of the steps that `metrics` has; None if it has none."""
    rows = [row for row in read_metric_rows(metrics).rows if row["kind"] == "train"]
    rows = [row for row in rows if row.get("time/step_s") and row.get("signal/episodes")]
    if not rows:
        return None
    rate = sum(row["time/step_s"] for row in rows) / sum(row["signal/episodes"] for row in rows)
    return f"about {format_seconds(rate * episodes)}, at the {rate:.2g} s an episode of {len(rows)} steps in this directory"


def advise(loaded: LoadedConfig, hardware: Hardware, *, trains: bool) -> Iterator[str]:
    """Yield what does not suit the machine."""
    left = [key for key in SIZES if key not in loaded.user_keys]
    if hardware.here and not hardware.gpus and trains and left:
        yield (
            f"this machine has no GPU, and the defaults of {', '.join(left)} are for one that has: "
            "start with small values, such as 4 tasks of 4 episodes"
        )
