"""The hyperparameters of a trainer. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from attrs import field, frozen
from attrs.validators import deep_iterable, ge, gt, in_, instance_of, le, lt, optional

from astuner.runs.training import Aggregation, KlType, LossOptions

Schedule = Literal["constant", "cosine", "linear"]
"""The schedule of the learning rate after the warm-up."""

AGGREGATIONS = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")
SCHEDULES = ("constant", "cosine", "linear")


def _none_is_zero(value: float | None) -> float:
    return value or 0.0


@frozen(kw_only=True)
class TrainerOptions(LossOptions):
    """Everything that decides an update besides the model and the rows."""

    lr: float = field(default=1e-6, validator=ge(0))
    """Peak learning rate of AdamW."""
    lr_warmup_steps: int = field(default=0, validator=ge(0))
    """Steps in which the rate rises linearly to `lr`; it is above 0 in the first."""
    lr_scheduler_type: Schedule = field(default="constant", validator=in_(SCHEDULES))
    """After the warm-up: `constant`, or a fall towards zero at `total_steps`."""
    total_steps: int = field(default=1, validator=ge(1))
    """Steps of the run, for the schedules that fall."""
    weight_decay: float = field(default=0.0, validator=ge(0))
    """AdamW's decay of every trainable parameter, norms and biases included, as in verl."""
    betas: tuple[float, float] = field(default=(0.9, 0.999), validator=deep_iterable([ge(0), lt(1)]))
    """AdamW's decay rates of the two moments."""
    grad_clip: float = field(default=1.0, converter=_none_is_zero, validator=ge(0))
    """Largest norm of the gradient; None or 0 leaves it as it is."""
    mini_batch_num: int = field(default=1, validator=ge(1))
    """Optimizer steps per training step. Above 1 the later ones are off-policy, so the ratio and its clipping matter."""
    loss_agg_mode: Aggregation = field(default="token-mean", validator=in_(AGGREGATIONS))
    """How the losses of tokens become one number. For `seq-*` a sequence is an agent's episode, whatever its number of rows."""
    max_response_length: int = field(default=1, validator=ge(1))
    """The constant that `seq-mean-token-sum-norm` (Dr.GRPO) divides by."""
    use_kl_loss: bool = False
    """Whether the divergence from the reference is part of the loss."""
    kl_reward_type: KlType = field(default="kl", validator=in_(get_args(KlType)))
    """The estimator that `Trainer.reference_kl` sums, for the divergence as part of the reward."""
    temperature: float = field(default=1.0, validator=gt(0))
    """The sampler's. Logits are divided by it, so that log-probabilities belong to the sampled distribution."""
    top_p: float = field(default=1.0, validator=[gt(0), le(1)])
    """The sampler's nucleus; below 1 the trainer renormalises over its own nucleus (see `astuner_local.trainer.logprobs`)."""
    top_k: int = -1
    """The sampler's; -1 or 0 is the whole vocabulary."""
    dtype: str = field(default="float32", validator=in_(("float32", "bfloat16")))
    """The dtype of matrix products."""
    weight_dtype: str = field(default="float32", validator=in_(("float32", "bfloat16")))
    """The dtype of trained parameters and their gradients. In bfloat16 an update is rounded up or down at random, so that small
    ones are not lost on average; the sums of several passes are rounded too."""
    moment_dtype: str = field(default="float32", validator=in_(("float32", "bfloat16")))
    """The dtype of AdamW's two moments."""
    share_prefixes: bool = field(default=True, validator=instance_of(bool))
    """Compute the common prefixes of a group's rows once. The gradient is the same without it, but slower."""
    micro_batch_tokens: int | None = field(default=None, validator=optional(ge(1)))
    """Most tokens of one pass through the model. A shared prefix counts once, padding and masks of attention by their memory.
    A longer row gets its own pass. None: what fits in memory."""
    logits_per_pass: int | None = field(default=None, validator=optional(ge(1)))
    """Largest number of logits held at once. Bounds memory; the vocabulary projection is cut into pieces of this size. None: 33
    million on a GPU, and 8 million on a CPU, where larger tensors are given back to the system and come again page by page."""
    recompute_activations: bool | None = field(default=None, validator=optional(instance_of(bool)))
    """Keep only the input of each layer, and compute the layer again in the backward pass: a third more time, and about a tenth
    of the activations. The gradient has the same bits. None: in passes of one row that is longer than what fits in memory."""
    deterministic: bool | None = field(default=None, validator=optional(instance_of(bool)))
    """Take torch's deterministic algorithms, so that two runs have the same bits. None: on a CPU, where it costs nothing."""

    @classmethod
    def from_native(
        cls, native: Mapping[str, Any], *, total_steps: int, loss_agg_mode: Aggregation, dtype: str, **loss: Any
    ) -> TrainerOptions:
        """Make the options of a run from the section `trainer` of its native configuration (see `astuner_local.alignment`).

        `loss_agg_mode` belongs to the estimator and is used if the section has none. `loss` are further fields of `LossOptions`.
        """
        given = {**native, "betas": tuple(native["betas"]), "loss_agg_mode": native["loss_agg_mode"] or loss_agg_mode}
        return cls(**given, total_steps=total_steps, dtype=dtype, **loss)

    @property
    def truncated(self) -> bool:
        """Whether the sampler leaves out part of the vocabulary."""
        return self.top_p < 1 or self.top_k > 0
