"""What can be shown of a token."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen


@frozen
class Measure:
    """A number per token."""

    label: str
    unit: str
    meaning: str
    signed: bool = False
    """Whether 0 is the middle of its scale."""
    worst: str = "low"
    """Which end is looked at first: `low`, `high`, or `size` for both."""


MEASURES: Mapping[str, Measure] = {
    "logprob": Measure("log-probability, sampler", "nats", "Of the token, when it was sampled."),
    "trainer_logprob": Measure("log-probability, trainer", "nats", "Of the token in the trainer, before the update."),
    "mismatch": Measure("mismatch", "nats", "Log-probability of the trainer minus that of the sampler.", True, "size"),
    "advantage": Measure("advantage", "", "What the token is trained with: more likely if positive.", True),
    "entropy": Measure("entropy", "nats", "Of the trainer's distribution at this place.", False, "high"),
    "ref_logprob": Measure("log-probability, reference", "nats", "Of the token in the reference model."),
    "ratio": Measure("ratio", "", "Of the probabilities after and before updates of the step.", False, "high"),
    "rl": Measure("weight rl", "", "In the policy gradient.", True, "size"),
    "ce": Measure("weight ce", "", "In the likelihood.", True, "size"),
    "ref_kl": Measure("weight ref_kl", "", "In the divergence from the reference.", True, "size"),
    "clipped": Measure(
        "clipped", "", "1: the ratio was clipped from below, 2: from above, 3: the loss was bounded.", False, "high"
    ),
    "loss": Measure("loss", "", "The token's part of the loss, before clipping and its share in the batch.", True, "high"),
}
