"""What `astuner warm-start` is asked for."""

from __future__ import annotations

import math
from pathlib import Path

from attrs import field, frozen
from attrs.validators import ge, gt, lt, optional

from astuner_tools.demonstrations.played import EpisodeChoice

BATCH_SIZE = 16
EPOCHS = 3
TINY_STEPS = 300
"""Steps after which a tiny model writes like a few dozen demonstrations; its epochs follow from it."""
TINY_LR = 4e-3
WHOLE_LR = 1e-5
ADAPTER_LR = 2e-4


@frozen(kw_only=True)
class WarmStartRequest:
    """The options of the command."""

    conf: Path
    demos: Path | None = None
    """A file of demonstrations; or else `episodes`."""
    episodes: EpisodeChoice | None = None
    out: Path
    overrides: tuple[str, ...] = ()
    backbone: str | None = None
    tiny: bool = False
    """Begin with a new tiny model instead of `model.path`."""
    validate_before: bool = False
    """Play the validation tasks before the training with a new tiny model too, whose weights are random."""
    holdout: float = field(default=0.1, validator=[ge(0), lt(1)])
    """The share of the demonstrations that is only measured."""
    epochs: int | None = field(default=None, validator=optional(ge(1)))
    batch_size: int = field(default=BATCH_SIZE, validator=ge(1))
    lr: float | None = field(default=None, validator=optional(gt(0)))

    @property
    def source(self) -> str:
        """Where the demonstrations come from."""
        return str(self.demos) if self.episodes is None else f"--from-run {self.episodes.run}"

    def choose_epochs(self, rows: int) -> int:
        """Return the number of passes over so many rows."""
        if self.epochs is not None:
            return self.epochs
        return math.ceil(TINY_STEPS / math.ceil(rows / self.batch_size)) if self.tiny else EPOCHS

    def choose_lr(self, *, adapters: bool) -> float:
        """Return the highest learning rate."""
        if self.lr is not None:
            return self.lr
        return TINY_LR if self.tiny else ADAPTER_LR if adapters else WHOLE_LR
