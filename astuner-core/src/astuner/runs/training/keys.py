"""The keys that the training loop acts on, for the tables of the backbones that use it."""

from __future__ import annotations

LOOP_HONOURS: tuple[str, ...] = (
    "data.sampler",
    "trainer_common.algorithm.filter_groups.enable",
    "trainer_common.algorithm.filter_groups.max_num_gen_batches",
    "trainer_common.save_freq",
    "trainer_common.test_freq",
    "trainer_common.val_before_train",
    "trainer_common.keep_best",
    "trainer_common.max_checkpoints_to_keep",
    "trainer_common.token_record",
)

LOSS_HONOURS: tuple[str, ...] = (
    "trainer_common.algorithm.policy_loss",
    "trainer_common.algorithm.rollout_*",
    "trainer_common.algorithm.entropy_ctrl.coeff",
    "trainer_common.clip_ratio_*",
)
"""Those of a trainer that minimises `astuner.runs.training.losses`, apart from the divergence and `entropy_ctrl.target`."""

ENTROPY_TARGET_HONOURS: tuple[str, ...] = tuple(
    f"trainer_common.algorithm.entropy_ctrl.{name}" for name in ("target", "delta", "most")
)
"""Those of a learner that `weighs_entropy`."""
