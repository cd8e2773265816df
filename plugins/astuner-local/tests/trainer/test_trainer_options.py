from __future__ import annotations

import pytest

from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.schedule import learning_rate


@pytest.mark.parametrize(
    "wrong", [{"temperature": 0.0}, {"top_p": 0.0}, {"loss_agg_mode": "mean"}, {"kl_loss_type": "k3"}, {"betas": (0.9, 1.0)}]
)
def test_values_without_meaning_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TrainerOptions(**wrong)


def _rates(steps, **options):
    settings = TrainerOptions(lr=1.0, total_steps=steps, **options)
    return [round(learning_rate(step, settings), 4) for step in range(1, steps + 1)]


def test_warm_up_rises_linearly_and_its_first_step_already_learns():
    assert _rates(6, lr_warmup_steps=4) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_linear_falls_to_zero_after_the_last_step():
    assert _rates(6, lr_warmup_steps=2, lr_scheduler_type="linear") == [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]


def test_cosine_falls_to_zero_after_the_last_step():
    assert _rates(4, lr_scheduler_type="cosine") == [1.0, 0.8536, 0.5, 0.1464]


def test_rate_of_the_step_is_the_one_that_is_applied(make_model, make_groups):
    from astuner_local.trainer.trainer import Trainer

    trainer = Trainer(make_model(), TrainerOptions(lr=1e-3, lr_warmup_steps=10))
    assert [trainer.update(make_groups(), step)["lr"] for step in (1, 5)] == pytest.approx([1e-4, 5e-4])
