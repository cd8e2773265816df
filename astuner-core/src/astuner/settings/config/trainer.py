"""The section `trainer_common`: the training loop, the algorithm and the optimiser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import and_, ge, gt, lt, min_len, optional

from astuner.settings.config.components import ONE_OR_MANY, OpenSection

KlEstimator = Literal["kl", "abs", "mse", "low_var_kl"]
"""`kl` is k1, `mse` is k2, `low_var_kl` is k3."""

LossAggregation = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"]


@frozen(kw_only=True)
class KlControl:
    """The KL penalty inside the reward."""

    kl_coef: float = field(default=0.001, validator=ge(0))
    """Weight of the divergence that is taken off the reward."""


@frozen(kw_only=True)
class FilterGroups:
    """Resampling of groups whose rewards are all equal and so give no signal."""

    enable: bool = False
    """Draw further tasks instead of groups whose rewards are all equal. For estimators that compare siblings."""
    max_num_gen_batches: int = field(default=4, validator=ge(1))
    """Most batches that are generated for one step."""


@frozen(kw_only=True)
class EntropyControl:
    """The entropy in the loss."""

    coeff: float = field(default=0.0, validator=ge(0))
    """Weight of the entropy of the trained tokens, which is subtracted from the loss."""
    target: float | None = field(default=None, validator=optional(gt(0)))
    """Adapt the weight (arXiv 2505.22312): after a step whose mean entropy, in nats, is below this it rises by `delta`, else it
    falls, and it counts only after a step whose entropy was not above. null keeps it as it is."""
    delta: float = field(default=0.005, validator=gt(0))
    """By how much it moves after a step."""
    most: float = field(default=1.0, validator=gt(0))
    """The largest weight; the smallest is 0."""


RejectionMeasure = Literal[
    "token_k1", "token_k2", "token_k3",
    "seq_sum_k1", "seq_sum_k2", "seq_sum_k3",
    "seq_mean_k1", "seq_mean_k2", "seq_mean_k3",
    "seq_max_k2", "seq_max_k3",
]  # fmt: skip


@frozen(kw_only=True)
class Algorithm(OpenSection):
    """How rewards become advantages, and advantages a loss."""

    task_norm_patch: bool = False
    """Normalise over all samples of a task, not over its episodes."""
    adv_estimator: str = "grpo"
    """The advantage estimator: one of those listed above, or an installed one."""
    use_kl_in_reward: bool = False
    """Subtract the KL to the reference model from the reward."""
    kl_penalty: KlEstimator = "kl"
    """Its estimator there."""
    kl_ctrl: KlControl = field(factory=KlControl)
    norm_adv_by_std_in_grpo: bool = True
    """Divide by the standard deviation of the group; False is Dr.GRPO's choice."""
    norm_adv_by_agent: bool = True
    """Compare each agent of an episode with the same agent of the siblings; False compares all agents of all siblings together.
    Without effect where only one agent is trained."""
    filter_groups: FilterGroups = field(factory=FilterGroups)
    policy_loss: str = "ppo_clip"
    """The policy gradient's loss: `ppo_clip`, or an installed one."""
    rollout_is: Literal["token", "sequence"] = "token"
    """What has an importance weight between sampler and trainer: each token, or the whole sample."""
    rollout_is_threshold: float | None = field(default=None, validator=optional(gt(0)))
    """Upper bound of that weight; null applies none."""
    rollout_is_lower: float | None = field(default=None, validator=optional(gt(0)))
    """Lower bound: with it, what is beyond the bounds counts 0 (masked importance sampling, IcePop); null truncates at the upper
    one."""
    rollout_rs: RejectionMeasure | None = None
    """Leave out what is off policy by this measure of trainer and sampler; null leaves out nothing."""
    rollout_rs_threshold: float = field(default=2.0, validator=gt(0))
    """The largest measure that is trained; for `…_k1` the largest ratio of the sampler's probability to the trainer's."""
    rollout_rs_lower: float | None = field(default=None, validator=optional(gt(0)))
    """The smallest such ratio for `…_k1`; null is 1 / `rollout_rs_threshold`."""
    overlong_filter: bool = False
    """Train no token of an agent one of whose answers in the episode was cut off at a length limit; its reward still counts."""
    entropy_ctrl: EntropyControl = field(factory=EntropyControl)


@frozen(kw_only=True)
class FsdpConfig:
    """What stays on the CPU to save GPU memory."""

    param_offload: bool = True
    """Keep the parameters there between passes."""
    optimizer_offload: bool = True
    """Keep the optimiser's state there."""


def _check_betas(_: Any, attribute: Attribute[Any], value: tuple[float, float]) -> None:
    if not all(0 <= beta < 1 for beta in value):
        raise ValueError(f"'{attribute.name}' must be two numbers from 0 up to, not including, 1: {list(value)}")


@frozen(kw_only=True)
class Optim:
    """AdamW and its schedule."""

    lr: float = field(default=1e-6, validator=ge(0))
    """Peak learning rate."""
    lr_warmup_steps: int = field(default=0, validator=ge(0))
    """Steps in which the learning rate rises from 0."""
    lr_scheduler_type: Literal["constant", "cosine", "linear"] = "constant"
    """Its course after that: constant, or falling to 0, which it would reach one step after the last."""
    weight_decay: float = field(default=0.01, validator=ge(0))
    """AdamW's decay."""
    betas: tuple[float, float] = field(default=(0.9, 0.999), validator=_check_betas)
    """AdamW's decay rates of the two moments."""


@frozen(kw_only=True)
class TokenRecord:
    """What is kept of every trained token, in `episodes/signal/` of the run directory."""

    enable: bool = True
    """Keep log-probability, entropy, ratio, clipping, weights and advantage of every trained token."""
    most_gb: float = field(default=2.0, validator=gt(0))
    """Most space it takes, in 10^9 bytes: beyond it the oldest steps are removed."""


@frozen(kw_only=True)
class LoggerChoice:
    """One logger, written as its name or as `{name: {options}}`."""

    name: str = field(validator=min_len(1))
    options: Mapping[str, Any] = field(factory=dict)


@frozen(kw_only=True)
class TrainerCommon:
    """The training loop."""

    val_before_train: bool = False
    """Validate before the first step."""
    val_pass_n: int = field(default=4, validator=ge(1))
    """Episodes per validation task. If it is not set and validation is greedy, it is 1: all samples would be the same."""
    save_freq: int = 20
    """Steps from checkpoint to checkpoint; 0 or less saves none in between."""
    test_freq: int = 20
    """Steps from validation to validation; 0 or less makes none in between."""
    total_epochs: int = field(default=50, validator=ge(1))
    """Passes over the training tasks."""
    total_training_steps: int | None = field(default=None, validator=optional(ge(1)))
    """Ends the run after this many steps, instead of `total_epochs`."""
    nnodes: int = field(default=1, validator=ge(1))
    """Machines."""
    n_gpus_per_node: int = field(default=8, validator=ge(0))
    """GPUs in each of them."""
    logger: tuple[LoggerChoice, ...] = field(default=(LoggerChoice(name="console"),), metadata={ONE_OR_MANY: True})
    """Where metrics go: `console`, `[console, NAME]`, `[console, {NAME: {OPTION: VALUE}}]`."""
    algorithm: Algorithm = field(factory=Algorithm)
    mini_batch_num: int = field(default=1, validator=ge(1))
    """Optimiser steps that a batch is divided into."""
    fsdp_config: FsdpConfig = field(factory=FsdpConfig)
    optim: Optim = field(factory=Optim)
    use_kl_loss: bool = True
    """Add the KL to the reference model to the loss."""
    kl_loss_coef: float = field(default=0.002, validator=ge(0))
    """Its weight in the loss."""
    kl_loss_type: KlEstimator = "low_var_kl"
    """Its estimator there."""
    ulysses_sequence_parallel_size: int = field(default=1, validator=ge(1))
    """GPUs that one sequence is spread over."""
    clip_ratio_low: float = field(default=0.2, validator=and_(ge(0), lt(1)))
    """The policy ratio is clipped below 1 minus this."""
    clip_ratio_high: float = field(default=0.2, validator=ge(0))
    """The policy ratio is clipped above 1 plus this."""
    clip_ratio_c: float = field(default=3.0, validator=gt(1))
    """Dual clip: for negative advantages the loss of a token counts up to this policy ratio."""
    loss_agg_mode: LossAggregation | None = None
    """How token losses become one number; null takes the estimator's default."""
    grad_clip: float = field(default=1.0, validator=gt(0))
    """Largest norm of the gradient."""
    memory_check: Literal["refuse", "warn"] = "refuse"
    """What happens before a run whose planned memory (`astuner run --dry-run` shows it) exceeds the machine's."""
    max_checkpoints_to_keep: int | None = field(default=None, validator=optional(ge(1)))
    """Older checkpoints are deleted; null keeps all."""
    keep_best: bool | None = None
    """Save the checkpoint with the best validation reward too, and keep it: one more than without; null does where there is
    validation."""
    token_record: TokenRecord = field(factory=TokenRecord)
