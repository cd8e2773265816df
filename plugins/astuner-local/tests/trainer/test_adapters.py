from __future__ import annotations

import numpy as np
import pytest
import torch

from astuner_local.trainer.model_io import load_model
from astuner_local.trainer.options import TrainerOptions
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
    before = trainer.reference_kl([row.sample for row in rows])
    found = [trainer.update(rows, step)["kl/mean"] for step in (1, 2, 3)]
    assert found[0] == pytest.approx(0, abs=1e-6)
    assert found[2] > 1e-3
    assert trainer.reference_kl([row.sample for row in rows]) == before
