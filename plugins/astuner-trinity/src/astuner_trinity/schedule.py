"""What each explorer step plays: a step's tasks, and the validation of the weights at its start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen


@frozen(kw_only=True)
class Schedule:
    """The steps of a run."""

    total: int
    """Training steps."""
    every: int
    """Validate after every `every` steps; never if 0 or less."""
    before: bool
    """Validate before the first."""
    catching_up: int = 0
    """Explorer steps without tasks between the last training step and the last validation, until the last weights arrive."""

    @property
    def last(self) -> int:
        """The last explorer step: after training, it plays only the last validation."""
        return self.total + self.catching_up + 1 if self.validates(self.total) else self.total

    def weights_at(self, explorer_step: int) -> int | None:
        """Return how many training steps the weights at the start of an explorer step have had; None while it catches up."""
        if explorer_step <= self.total:
            return explorer_step - 1
        return self.total if explorer_step >= self.last else None

    def validates(self, step: int) -> bool:
        """Whether the weights after `step` training steps are validated."""
        if step == 0:
            return self.before
        if step >= self.total:
            return self.every > 0 or self.before
        return self.every > 0 and step % self.every == 0

    def until_the_last_weights(self, synchronizer: Mapping[str, Any], in_flight: int) -> int:
        """Return how many steps an explorer needs after the last training step until it gets the last weights.

        Trinity hands them over after explorer steps s with (s - sync_offset) % sync_interval == 0; in the style fully_async
        whenever there are any, but a step's rows reach the trainer only when later steps push them out.
        """
        if synchronizer["sync_style"] == "fully_async":
            return in_flight
        offset = synchronizer["sync_offset"]
        interval = synchronizer["explorer_sync_interval"] or synchronizer["sync_interval"]
        handed_over = self.total + offset
        handed_over += -(handed_over - offset) % interval
        return int(handed_over - self.total)

    def last_weights(self, synchronizer: Mapping[str, Any]) -> int:
        """Return how many training steps the last weights of an explorer have had."""
        interval = synchronizer["trainer_sync_interval"] or synchronizer["sync_interval"]
        return self.total if synchronizer["sync_style"] == "explorer_driven" else int(self.total - self.total % interval)

    def trains(self, explorer_step: int) -> bool:
        """Whether an explorer step plays training tasks."""
        return explorer_step <= self.total
