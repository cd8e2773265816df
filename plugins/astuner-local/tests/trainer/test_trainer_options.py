from __future__ import annotations

import pytest
from attrs import evolve

from astuner.config.model import Config
from astuner.errors import ConfigError
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.schedule import learning_rate


@pytest.fixture
def config(make_model, tmp_path):
    make_model().save_pretrained(tmp_path / "model")
    plain = Config()
    return evolve(plain, model=evolve(plain.model, path=str(tmp_path / "model")))


def test_options_are_read_off_the_config(config):
    common = evolve(config.trainer_common, clip_ratio_high=0.28, mini_batch_num=3, kl_loss_type="mse", grad_clip=0.5)
    common = evolve(common, optim=evolve(common.optim, lr=2e-5, betas=(0.8, 0.9)))
    common = evolve(common, algorithm=evolve(common.algorithm, rollout_is_threshold=2.0, kl_penalty="abs"))
    options = TrainerOptions.from_config(
        evolve(config, trainer_common=common, rollout=evolve(config.rollout, temperature=0.8, top_p=0.9, top_k=40)),
        total_steps=7,
        loss_agg_mode="seq-mean-token-sum-norm",
    )
    assert options == TrainerOptions(
        lr=2e-5,
        betas=(0.8, 0.9),
        weight_decay=0.01,
        total_steps=7,
        grad_clip=0.5,
        mini_batch_num=3,
        clip_ratio_high=0.28,
        rollout_is_threshold=2.0,
        loss_agg_mode="seq-mean-token-sum-norm",
        max_response_length=15000,
        use_kl_loss=True,
        kl_loss_coef=0.002,
        kl_loss_type="mse",
        kl_reward_type="abs",
        temperature=0.8,
        top_p=0.9,
        top_k=40,
    )


def test_greedy_rollouts_are_refused_for_training(config):
    greedy = evolve(config, rollout=evolve(config.rollout, temperature=0.0))
    with pytest.raises(ConfigError, match=r"astuner\.rollout\.temperature: 0 is greedy"):
        TrainerOptions.from_config(greedy, total_steps=1, loss_agg_mode="token-mean")


def test_precision_auto_is_that_of_the_checkpoint(config, make_model):
    make_model().bfloat16().save_pretrained(config.model.path)
    assert TrainerOptions.from_config(config, total_steps=1, loss_agg_mode="token-mean").dtype == "bfloat16"


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
