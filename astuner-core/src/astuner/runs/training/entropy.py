"""The weight of the entropy in the loss, where it follows the entropy."""

from __future__ import annotations

from attrs import define

from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.metric_rows import read_metric_rows
from astuner.settings.config.trainer import EntropyControl


@define
class EntropyWeight:
    """Adapted after each step (arXiv 2505.22312). It follows from what was logged, so a resume finds it as it was."""

    settings: EntropyControl
    weight: float
    last: float = 0.0
    """The mean entropy of the last step, in nats."""

    @classmethod
    def open(cls, directory: RunDirectory, settings: EntropyControl, step: int) -> EntropyWeight | None:
        """Return the weight after a step; None if it is constant."""
        if settings.target is None:
            return None
        found = cls(settings=settings, weight=settings.coeff)
        for row in read_metric_rows(directory.metrics).rows if step else ():
            if row["kind"] == "train" and row["step"] <= step:
                found.adapt(row.get("entropy/mean"))
        return found

    @property
    def coeff(self) -> float:
        """What the entropy counts in the next step."""
        return self.weight if self.last <= (self.settings.target or 0.0) else 0.0

    def adapt(self, entropy: float | None) -> None:
        """Take the mean entropy of a step; None if it trained nothing."""
        if entropy is None:
            return
        self.last = entropy
        moved = self.weight + (self.settings.delta if entropy < (self.settings.target or 0.0) else -self.settings.delta)
        self.weight = min(max(moved, 0.0), self.settings.most)
