from __future__ import annotations

import numpy as np
import pytest
import torch

from astuner.contract.errors import ConfigError
from astuner_local.trainer.model_io import load_model, save_hf
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.reference import copy_trained
from astuner_local.trainer.trainer import Trainer


@pytest.fixture
def adapted(make_model, tmp_path):
    make_model().save_pretrained(tmp_path / "base")
    torch.manual_seed(0)
    return load_model(tmp_path / "base", lora_rank=4)


@pytest.mark.parametrize("share", [True, False], ids=["shared", "unshared"])
def test_gradient_of_adapters_equals_that_of_the_plain_forward(share, adapted, make_groups, gradients, difference):
    with torch.no_grad():
        for name, p in adapted.named_parameters():
            if "lora_B" in name:
                p.normal_(0, 0.1, generator=torch.Generator().manual_seed(1))
    rows = make_groups(groups=2, repeats=3)
    (found,) = gradients(adapted, rows, share_prefixes=share)
    loss = 0.0
    for row in rows:
        ids = torch.from_numpy(row.sample.ids.astype(np.int64))[None]
        at = np.flatnonzero(row.sample.mask)
        loss = loss - row.advantage * adapted(input_ids=ids).logits[0].log_softmax(-1)[at - 1, ids[0, at]].sum()
    (loss / sum(row.sample.trained for row in rows)).backward()
    assert difference(found, {n: p.grad.double() for n, p in adapted.named_parameters() if p.requires_grad}) < 1e-5


def test_only_the_adapters_move(adapted, make_groups):
    before = {name: p.detach().clone() for name, p in adapted.named_parameters()}
    Trainer(adapted, TrainerOptions(lr=1e-2)).update(make_groups(), 1)
    moved = {name for name, p in adapted.named_parameters() if not torch.equal(p, before[name])}
    assert moved
    assert all("lora_" in name for name in moved)


def test_the_reference_is_the_base_without_its_adapters(adapted, make_groups):
    rows = make_groups()
    trainer = Trainer(adapted, TrainerOptions(lr=1e-2, use_kl_loss=True, kl_loss_coef=1e-6))
    assert not np.concatenate(trainer.reference_kl([row.sample for row in rows])).any()
    found = [trainer.update(rows, step)["kl/mean"] for step in (1, 2, 3)]
    assert found[0] == 0
    assert found[2] > 1e-3


def test_the_reference_may_be_the_adapters_that_the_run_began_with(adapted, make_groups):
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.1, generator=torch.Generator().manual_seed(1))
    rows = make_groups()
    options = TrainerOptions(lr=1e-2, use_kl_loss=True, kl_loss_coef=1e-6)
    trainer = Trainer(adapted, options, reference=copy_trained(adapted))
    assert not np.concatenate(trainer.reference_kl([row.sample for row in rows])).any()
    found = [trainer.update(rows, step)["kl/mean"] for step in (1, 2, 3)]
    assert found[0] == pytest.approx(0, abs=1e-6)
    assert found[2] > 1e-3


def test_saved_adapters_are_not_loaded_as_others(adapted, tmp_path):
    save_hf(adapted, None, tmp_path / "saved")
    with pytest.raises(ConfigError, match=r"is 16, but the adapters in .*saved have rank 4"):
        load_model(tmp_path / "saved", lora_rank=16)


def test_saving_adapters_asks_nobody_about_their_base(adapted, tmp_path, monkeypatch):
    def ask(*args):
        raise AssertionError("the hub was asked")

    adapted.peft_config["default"].base_model_name_or_path = "org/base"
    monkeypatch.setattr("peft.utils.save_and_load.check_file_exists_on_hf_hub", ask)
    save_hf(adapted, None, tmp_path / "saved")
    assert (tmp_path / "saved" / "adapter_model.safetensors").is_file()
