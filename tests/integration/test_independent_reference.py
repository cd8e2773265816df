"""Runs of the local backbone move the weights as an independent trainer in float64 does, in every setting."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from harness import Cli
from runs_on_disk import metric_rows, record

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

RUN = {
    "data.shuffle": "false",
    "data.train_batch_size": 4,
    "rollout.num_repeat": 4,
    "trainer_common.total_training_steps": 3,
    "trainer_common.save_freq": 1,
    "trainer_common.val_before_train": "false",
    "trainer_common.test_freq": 0,
    "trainer_common.optim.lr": 1e-3,
}
T, A = "trainer_common", "trainer_common.algorithm"
SETTINGS = {
    "quickstart": {f"{T}.optim.lr_warmup_steps": 2},
    "mini-batches": {f"{T}.mini_batch_num": 4, f"{T}.kl_loss_coef": 0.05, f"{T}.loss_agg_mode": "seq-mean-token-mean"},
    "dr_grpo": {
        f"{A}.adv_estimator": "dr_grpo",
        "rollout.temperature": 0.7,
        f"{T}.use_kl_loss": "false",
        f"{T}.mini_batch_num": 2,
    },
    "rloo": {
        f"{A}.adv_estimator": "rloo",
        "rollout.top_k": 20,
        f"{T}.loss_agg_mode": "seq-mean-token-sum",
        f"{T}.kl_loss_type": "mse",
        f"{T}.kl_loss_coef": 0.1,
        f"{T}.mini_batch_num": 4,
        f"{T}.clip_ratio_high": 0.28,
    },
    "reinforce++": {
        f"{A}.adv_estimator": "reinforce_plus_plus",
        "rollout.top_p": 0.9,
        "rollout.temperature": 1.2,
        f"{T}.kl_loss_type": "kl",
        f"{A}.rollout_is_threshold": 2.0,
        f"{T}.grad_clip": 0.05,
    },
    "kl-in-reward": {
        f"{A}.use_kl_in_reward": "true",
        f"{A}.kl_ctrl.kl_coef": 0.5,
        f"{T}.use_kl_loss": "false",
        f"{T}.mini_batch_num": 3,
        f"{T}.optim.lr_scheduler_type": "cosine",
        f"{T}.optim.lr_warmup_steps": 1,
    },
    "kl-in-the-returns": {
        f"{A}.adv_estimator": "reinforce_plus_plus",
        f"{A}.use_kl_in_reward": "true",
        f"{A}.kl_ctrl.kl_coef": 0.5,
        f"{T}.use_kl_loss": "false",
    },
    "no-std": {
        f"{A}.norm_adv_by_std_in_grpo": "false",
        "rollout.num_repeat": 3,
        f"{T}.kl_loss_type": "abs",
        f"{T}.loss_agg_mode": "seq-mean-token-sum-norm",
        f"{T}.optim.weight_decay": 0.1,
    },
    "a loss from a file": {
        f"{A}.policy_loss": "./losses.py:GeometricMean",
        f"{A}.rollout_is": "sequence",
        f"{A}.rollout_is_threshold": 2.0,
        f"{T}.mini_batch_num": 4,
    },
    "entropy": {f"{A}.entropy_ctrl.coeff": 0.05, f"{T}.mini_batch_num": 2, "rollout.top_k": 20},
    "lora": {"model.lora_rank": 8, f"{T}.mini_batch_num": 2},
}


LOSS = """
class GeometricMean:
    def compute(self, tokens):
        # An optimizer step moves the mean ratio beyond such bounds.
        mean = tokens.average(tokens.logp - tokens.old).exp()
        return -(mean * tokens.advantages).minimum(mean.clamp(1 / 1.001, 1.001) * tokens.advantages)
"""


@pytest.mark.parametrize("name", SETTINGS)
def test_weights_are_those_of_an_independent_trainer(cli: Cli, project: Path, name: str) -> None:
    from independent_reference import IndependentReference

    settings = [f"--set={key}={value}" for key, value in {**RUN, **SETTINGS[name]}.items()]
    (project / "losses.py").write_text(LOSS)
    finished = cli("run", "--conf", "tune.yaml", *settings, cwd=project)
    assert finished.returncode == 0, finished.stderr
    tasks = [json.loads(line)["task_id"] for line in (project / "tasks" / "train.jsonl").read_text().splitlines()]
    reference = IndependentReference(record(project), project / "model", tasks)
    for row, found in zip(metric_rows(record(project)), reference.steps(), strict=True):
        assert row["signal/updates"] == len(found.norms) > 0
        assert row["grad/norm"] == pytest.approx(sum(found.norms) / len(found.norms), rel=1e-4)
        assert found.relative < 1e-3
