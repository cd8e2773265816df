"""Our algorithm in Trinity's terms: advantages from core, the loss of every backbone, no critic."""

from __future__ import annotations

from typing import Any

from trinity.algorithm.algorithm import AlgorithmType


class GroupRelative(AlgorithmType):
    """For a loss without a divergence from the reference."""

    use_critic = False
    use_reference = False
    compute_advantage_in_trainer = False
    can_balance_batch = True
    schema = "experience"

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """Return the defaults of the configuration."""
        return {
            "repeat_times": 2,
            "advantage_fn": "astuner_trinity.explorer.row_counts.StepStamp",
            "sample_strategy": "astuner_trinity.trainer.batches.StepBatches",
            "policy_loss_fn": "astuner_trinity.trainer.loss.WeighedLoss",
            "kl_penalty_fn": "none",
            "kl_loss_fn": "none",
            "entropy_loss_fn": "astuner_trinity.trainer.loss.EntropyMeasure",
        }


class GroupRelativeWithReference(GroupRelative):
    """For a loss with one: Trinity computes the reference's log-probabilities."""

    use_reference = True
