"""How many episodes a run plays at most, from its configuration and its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from astuner.episodes.rollout.sampler import TaskSampler
    from astuner.settings.config.model import Config
    from astuner.settings.config.trainer import TrainerCommon


def bound_training_episodes(config: Config, tasks: TaskSampler, *, greedy: bool = False) -> int:
    """Return the most episodes of training, greedy ones too: a step that filters may draw further tasks, none of them twice."""
    filtering = config.trainer_common.algorithm.filter_groups
    batch = config.data.train_batch_size
    drawn = batch * filtering.max_num_gen_batches if filtering.enable else batch
    return tasks.total_steps * min(drawn, tasks.train_tasks) * (config.rollout.num_repeat + greedy)


def count_validation_episodes(config: Config, tasks: TaskSampler) -> int:
    """Return how many episodes the validations play."""
    trainer = config.trainer_common
    return _count_validations(trainer, tasks.total_steps) * tasks.validation_tasks * trainer.val_pass_n


def _count_validations(trainer: TrainerCommon, steps: int) -> int:
    """A run that validates at all does so after its last step, in whatever intervals."""
    first, every = int(trainer.val_before_train), trainer.test_freq
    if every <= 0:
        return 2 * first
    return first + -(-steps // every)
