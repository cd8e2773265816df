"""The names of a training step's metrics that every backbone that trains weights reports; each may add its own."""

from __future__ import annotations

from collections.abc import Mapping

OF_EPISODES: Mapping[str, str] = {
    "reward/mean": "mean reward of the episodes that have one",
    "reward/std": "its standard deviation",
    "signal/calls": "calls of the model, those of attempts that were played again included",
    "signal/episodes": "episodes that were played",
    "signal/episodes_rewarded": "those with a reward",
    "signal/groups": "groups, one per task",
    "signal/groups_without_signal": "those in which no trained token has an advantage",
    "signal/groups_filtered": "those that `filter_groups` left out; 0 without the filter",
    "signal/groups_surplus": "groups with signal that the filter drew beyond those that were wanted",
    "signal/retries": "attempts that were played again",
    "signal/samples": "training samples of the episodes",
    "signal/tokens_trainable": "sampled tokens that may be trained",
    "signal/tokens_nonzero_advantage": "those with an advantage",
    "tokens/generated": "sampled tokens",
    "tokens/per_s": "sampled tokens per second of the step",
    "time/rollout_s": "seconds in which the episodes were played",
    "time/step_s": "seconds of the whole step",
}
"""From the episodes and the clock."""

OF_UPDATES: Mapping[str, str] = {
    "clip/dual": "share of trained tokens whose loss was clipped at the dual limit",
    "clip/high": "share whose ratio was clipped from above",
    "clip/low": "share whose ratio was clipped from below",
    "entropy/mean": "entropy of the model at the trained tokens, in nats",
    "grad/norm": "norm of the gradient before clipping, a mean over optimizer steps",
    "loss/kl": "the part of the loss that is the divergence from the reference",
    "loss/policy": "the rest of the loss",
    "lr": "learning rate",
    "mismatch/abs_max": "largest difference of the log-probabilities of trainer and sampler",
    "mismatch/exp_abs_mean": "mean of e to this difference",
    "mismatch/ratio_mean": "mean ratio of their probabilities",
    "signal/nothing_to_train": "1 if no row has a gradient",
    "signal/rows": "samples that reached the update",
    "signal/rows_trained": "those with a gradient",
    "signal/rows_without_tokens": "those without a trained token",
    "signal/rows_zero_advantage": "those whose advantages are all 0",
    "signal/tokens": "their trained tokens",
    "signal/updates": "optimizer steps",
    "signal/updates_not_finite": "optimizer steps left out because the gradient was not finite",
    "tokens/computed": "tokens that the forward passes of the update computed; shared prefixes count once",
    "tokens/trained": "tokens of the rows with a gradient",
}
"""From the update of a step in which something is trained."""
