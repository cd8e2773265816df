from __future__ import annotations

import pytest

from astuner_local.trainer.options import TrainerOptions


@pytest.mark.parametrize(
    "wrong", [{"temperature": 0.0}, {"top_p": 0.0}, {"loss_agg_mode": "mean"}, {"kl_loss_type": "k3"}, {"betas": (0.9, 1.0)}]
)
def test_values_without_meaning_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TrainerOptions(**wrong)


def test_rate_of_the_step_is_the_one_that_is_applied(make_model, make_groups):
    from astuner_local.trainer.trainer import Trainer

    trainer = Trainer(make_model(), TrainerOptions(lr=1e-3, lr_warmup_steps=10))
    assert [trainer.update(make_groups(), step)["lr"] for step in (1, 5)] == pytest.approx([1e-4, 5e-4])
