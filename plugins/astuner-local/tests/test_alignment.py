"""What the trainer is told: our keys, the raw section `local:`, and what only the start of the run knows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from astuner.settings.config.loading import load_config
from astuner.settings.config.native import Native, align
from astuner.settings.planning.key_coverage import find_unaccounted_keys
from astuner_local.alignment import ALIGNMENT, AT_START
from astuner_local.backbone import LocalBackbone
from astuner_local.trainer.options import TrainerOptions

START = {"total_steps": 7, "loss_agg_mode": "seq-mean-token-mean", "dtype": "bfloat16"}


@pytest.fixture
def native(tmp_path: Path):
    def aligned(text: str = "", *overrides: str) -> Native:
        head = "astuner:\n  backbone: local\n  model: {path: org/model}\n  rollout: {user_workflow: 'agent:Agent'}\n"
        (tmp_path / "run.yaml").write_text(head + text)
        return align(ALIGNMENT, load_config(tmp_path / "run.yaml", overrides))

    return aligned


def test_every_key_is_accounted_for():
    assert find_unaccounted_keys(LocalBackbone) == []


def test_options_follow_from_our_keys(native):
    overrides = (
        *(
            "trainer_common.mini_batch_num=3",
            "trainer_common.kl_loss_type=mse",
        ),
        *("trainer_common.grad_clip=0.5", "trainer_common.optim.lr=2.0e-5", "trainer_common.optim.betas=[0.8, 0.9]"),
        "trainer_common.algorithm.kl_penalty=abs",
        *("rollout.temperature=0.8", "rollout.top_p=0.9", "rollout.top_k=40"),
        "trainer_common.loss_agg_mode=seq-mean-token-sum-norm",
    )
    assert TrainerOptions.from_native(native("", *overrides).tree["trainer"], **START) == TrainerOptions(
        lr=2e-5,
        betas=(0.8, 0.9),
        weight_decay=0.01,
        total_steps=7,
        grad_clip=0.5,
        mini_batch_num=3,
        loss_agg_mode="seq-mean-token-sum-norm",
        max_response_length=15000,
        use_kl_loss=True,
        kl_loss_coef=0.002,
        kl_loss_type="mse",
        kl_reward_type="abs",
        temperature=0.8,
        top_p=0.9,
        top_k=40,
        dtype="bfloat16",
    )


def test_without_a_choice_the_aggregation_is_the_estimators(native):
    assert TrainerOptions.from_native(native().tree["trainer"], **START).loss_agg_mode == "seq-mean-token-mean"


def test_the_raw_section_reaches_options_that_have_no_key_of_ours(native):
    found = native("local: {trainer: {micro_batch_tokens: 512, share_prefixes: false}}\n")
    assert found.problems == ()
    options = TrainerOptions.from_native(found.tree["trainer"], **START)
    assert (options.micro_batch_tokens, options.share_prefixes) == (512, False)


def test_greedy_rollouts_are_refused_for_training(native):
    [problem] = native("", "rollout.temperature=0").problems
    assert problem.key == "astuner.rollout.temperature"
    assert problem.message.startswith("0 is greedy: there is no distribution to train.")


@pytest.mark.parametrize(
    ("raw", "key", "word"),
    [
        ("{trainer: {temperature: 0.5}}", "local.trainer.temperature", "rollout.temperature decides it"),
        ("{trainer: {dtype: float16}}", "local.trainer.dtype", "model.dtype decides"),
        ("{trainer: {clip_ratio_high: 0.3}}", "local.trainer.clip_ratio_high", "trainer_common.clip_ratio_low, clip_ratio_high"),
        ("{trainer: {rollout_is_threshold: 2.0}}", "local.trainer.rollout_is_threshold", "trainer_common.algorithm.rollout_is"),
        ("{trainer: {micro_batch_token: 5}}", "local.trainer.micro_batch_token", "no such native key"),
        ("{trainer: {micro_batch_tokens: many}}", "local.trainer.micro_batch_tokens", "expected"),
        ("{trainer: {logits_per_pass: 0}}", "local.trainer.logits_per_pass", ">= 1"),
    ],
)
def test_a_wrong_raw_key_is_named(native, raw: str, key: str, word: str):
    [problem] = native(f"local: {raw}\n").problems
    assert (problem.key, problem.line) == (key, 5)
    assert word in problem.message


def test_every_option_of_the_trainer_has_a_native_key_or_is_known_at_the_start(native):
    import attrs

    assert set(native().tree["trainer"]) | set(AT_START) == set(attrs.fields_dict(TrainerOptions))


def test_the_table_imports_no_torch():
    code = "import sys, astuner_local.backbone, astuner_local.alignment; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
