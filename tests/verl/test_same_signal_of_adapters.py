"""The same rows on the same adapters give the same loss and gradient, whether `local` trains them or verl."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from made_up_groups import Control, groups_of
from one_quickstart import one_quickstart

from astuner.episodes.judging.advantages import compute_advantages
from astuner.settings.planning.plan import plan_run

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("verl") is None, reason="verl is not installed"),
    pytest.mark.xdist_group("same-signal"),
]

SETTINGS = (
    "model.lora_rank=4",
    "trainer_common.kl_loss_coef=0.1",
    "trainer_common.optim.lr_scheduler_type=constant",
    "trainer_common.optim.lr=1.0e-2",
    "trainer_common.n_gpus_per_node=2",
)
EQUAL = ("loss/policy", "loss/kl", "kl/mean", "mismatch/ratio_mean", "entropy/mean", "grad/norm")
SIZES = (3, 3, 3)


def test_loss_and_gradient_are_equal(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    import ray  # noqa: F401  # as an agent's own code may, before there is a cluster with its key
    from peft.utils.save_and_load import set_peft_model_state_dict
    from safetensors.torch import load_file

    from astuner_local.opening import open_learner as open_local
    from astuner_verl.learner import open_learner as open_verl

    home = one_quickstart(tmp_path_factory)
    control: Any = Control()

    def plan(backbone: str) -> Any:
        planned = plan_run(home / "tune.yaml", SETTINGS, backbone)
        return planned, evolve(planned.run_info(), directory=tmp_path_factory.mktemp(backbone))

    planned, run = plan("local")
    local = open_local(run, planned.recipe, control, checkpoint=None, total_steps=100)
    planned, run = plan("verl")
    with open_verl(run, planned.recipe, control, checkpoint=None, total_steps=100) as verl:
        # The first step changes only what is zero at the start; from the second on every adapter has a gradient.
        for step in (1, 2, 3):
            verl.save(tmp_path / str(step))
            adapter = load_file(tmp_path / str(step) / "adapter_model.safetensors")
            assert not set_peft_model_state_dict(local.model, adapter).unexpected_keys
            rows = compute_advantages(groups_of(step, verl.renderer.tokenizer.vocab_size, SIZES), verl.estimator)
            expected, found = local.update(rows, step), verl.update(rows, step)
            assert {name: found[name] for name in EQUAL} == pytest.approx(
                {name: expected[name] for name in EQUAL}, rel=1e-4, abs=1e-6
            )
