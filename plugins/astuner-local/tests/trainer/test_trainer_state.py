from __future__ import annotations

import pytest
import torch

from astuner.contract.errors import UsageError
from astuner_local.trainer.model_io import load_model, save_hf
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.trainer import Trainer

OPTIONS = {
    "lr": 1e-2,
    "lr_warmup_steps": 3,
    "lr_scheduler_type": "cosine",
    "total_steps": 6,
    "weight_decay": 0.01,
    "mini_batch_num": 2,
}


def _trained(trainer, make_groups, steps):
    for step in steps:
        trainer.update(make_groups(seed=step), step)
    return {name: p.detach() for name, p in trainer.model.named_parameters()}


@pytest.fixture
def saved(make_model, tmp_path):
    make_model().save_pretrained(tmp_path / "base")
    return tmp_path / "base"


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_a_continued_run_has_the_bits_of_an_uninterrupted_one(lora_rank, saved, make_groups, tmp_path):
    torch.manual_seed(3)
    whole = load_model(saved, lora_rank=lora_rank)
    torch.manual_seed(3)
    first = load_model(saved, lora_rank=lora_rank)
    options = TrainerOptions(**OPTIONS, use_kl_loss=True, kl_loss_coef=0.1)
    expected = _trained(Trainer(whole, options), make_groups, range(1, 7))

    trainer = Trainer(first, options)
    _trained(trainer, make_groups, range(1, 4))
    save_hf(first, None, tmp_path / "step")
    trainer.save(tmp_path / "step")
    continued = Trainer(load_model(tmp_path / "step"), options, reference=None if lora_rank else load_model(saved))
    continued.load(tmp_path / "step")
    assert continued.step == 3
    found = _trained(continued, make_groups, range(4, 7))
    assert [name for name in expected if not torch.equal(expected[name], found[name])] == []


def test_state_of_other_options_is_refused_by_name_unless_allowed(make_model, make_groups, tmp_path):
    trainer = Trainer(make_model(), TrainerOptions(**OPTIONS))
    _trained(trainer, make_groups, [1])
    trainer.save(tmp_path)
    other = Trainer(make_model(), TrainerOptions(**{**OPTIONS, "lr": 0.5}))
    with pytest.raises(UsageError, match=r"lr was 0\.01 and is 0\.5"):
        other.load(tmp_path)
    other.load(tmp_path, may_differ=["lr"])
    assert other.step == 1


def test_a_run_may_be_continued_for_longer_and_with_other_limits_on_memory(make_model, make_groups, tmp_path):
    trainer = Trainer(make_model(), TrainerOptions(**OPTIONS))
    _trained(trainer, make_groups, [1])
    trainer.save(tmp_path)
    longer = Trainer(make_model(), TrainerOptions(**{**OPTIONS, "total_steps": 60, "micro_batch_tokens": 100}))
    longer.load(tmp_path)
    assert longer.step == 1


def test_state_of_another_model_is_refused(make_model, make_groups, tmp_path):
    trainer = Trainer(make_model(), TrainerOptions(**OPTIONS))
    _trained(trainer, make_groups, [1])
    trainer.save(tmp_path)
    with pytest.raises(UsageError, match="other trained parameters"):
        Trainer(make_model("qwen3"), TrainerOptions(**OPTIONS)).load(tmp_path)


def test_a_later_checkpoint_in_place_of_the_reference_is_refused(make_model, make_groups, tmp_path):
    options = TrainerOptions(**OPTIONS, use_kl_loss=True, kl_loss_coef=0.1)
    trainer = Trainer(make_model(), options)
    _trained(trainer, make_groups, [1, 2])
    trainer.save(tmp_path)
    with pytest.raises(UsageError, match="another reference model"):
        Trainer(trainer.model, options).load(tmp_path)


def test_a_directory_without_state_is_refused(make_model, tmp_path):
    with pytest.raises(UsageError, match=r"no trainer\.json"):
        Trainer(make_model(), TrainerOptions()).load(tmp_path)


def test_state_before_the_first_step_can_be_saved_and_loaded(make_model, tmp_path):
    Trainer(make_model(), TrainerOptions()).save(tmp_path)
    trainer = Trainer(make_model(), TrainerOptions())
    trainer.load(tmp_path)
    assert trainer.step == 0
