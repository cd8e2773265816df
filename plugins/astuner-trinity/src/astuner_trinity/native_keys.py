"""Keys of Trinity's configuration, and our values for some of them."""

from __future__ import annotations

ENGINE = "explorer.rollout_model"
LOSS = "algorithm.policy_loss_fn_args"
ENTROPY = "algorithm.entropy_loss_fn_args.entropy_coef"
OF_OUR_LOSS = {"kl_loss_coef", "kl_loss_type", "token_parts", "streams"}
"""What a plan has under `LOSS`."""
BATCHES = "algorithm.sample_strategy_args"
VERL = "trainer.trainer_config"
PLAIN, WITH_REFERENCE = "astuner_trinity.algorithm.GroupRelative", "astuner_trinity.algorithm.GroupRelativeWithReference"
ALGORITHMS = (PLAIN, WITH_REFERENCE)
TASKSET = "astuner_trinity.explorer.taskset.Taskset"
MONITOR = "astuner_trinity.monitor.FanOut"
LONG_S = 30 * 86400
"""For Trinity's limits on a whole step, however many episodes it has: core's limits end single episodes."""
