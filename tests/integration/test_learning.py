"""Algorithms, LoRA and checkpoints of the local backbone, on the quickstart's project."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import SMALL, Cli, environment
from python_server import PythonServer
from runs_on_disk import metric_rows, record, weights_digest

Greedy = Callable[..., list[list[float]]]

GREEDY = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
path = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(path)
if len(sys.argv) > 2:
    from peft import PeftModel
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(sys.argv[2]), path)
else:
    model = AutoModelForCausalLM.from_pretrained(path)
messages = [{"role": "user", "content": "What is 41 * 52?"}]
text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
with torch.no_grad():
    print(model(ids).logits[0, -1].topk(5).values.tolist())
    print(model.generate(input_ids=ids, max_new_tokens=12, do_sample=False)[0].tolist())
"""


@pytest.fixture
def greedy(python_server: PythonServer, tmp_path: Path) -> Greedy:
    """Generate greedily with plain transformers: `greedy(model)`, `greedy(adapter, model)` return five logits and the ids."""

    def generate(*paths: Path) -> list[list[float]]:
        found = python_server.run(["-c", GREEDY, *paths], cwd=tmp_path, env=environment(), timeout=240)
        assert found.returncode == 0, found.stderr
        return [json.loads(line) for line in found.stdout.splitlines()]

    return generate


@pytest.mark.parametrize("estimator", ["grpo", "dr_grpo", "rloo", "reinforce_plus_plus"])
def test_every_estimator_trains(cli: Cli, project: Path, estimator: str):
    finished = cli("run", "--conf", "tune.yaml", *SMALL, f"--set=trainer_common.algorithm.adv_estimator={estimator}", cwd=project)
    assert finished.returncode == 0, finished.stderr
    rows = metric_rows(record(project))
    assert max(row["signal/tokens_nonzero_advantage"] for row in rows) > 0
    assert all(row.get("mismatch/abs_max", 0) < 1e-4 for row in rows)


@pytest.mark.parametrize(
    "settings",
    [
        ("--set=trainer_common.use_kl_loss=true", "--set=trainer_common.kl_loss_coef=0.05"),
        ("--set=trainer_common.algorithm.use_kl_in_reward=true", "--set=trainer_common.algorithm.kl_ctrl.kl_coef=0.05"),
        ("--set=trainer_common.mini_batch_num=2", "--set=trainer_common.loss_agg_mode=seq-mean-token-mean"),
        ("--set=rollout.top_p=0.9", "--set=rollout.top_k=20", "--set=rollout.temperature=0.8"),
        ("--set=trainer_common.algorithm.filter_groups.enable=true",),
        ("--set=trainer_common.algorithm.rollout_is_threshold=2.0", "--set=model.dtype=bfloat16"),
        ("--set=context_tracker.context_tracker_type=linear", "--set=trainer_common.keep_best=true"),
    ],
    ids=["kl-loss", "kl-reward", "mini-batches", "truncated", "filter-groups", "bf16-is", "linear"],
)
def test_every_option_trains(cli: Cli, project: Path, settings: tuple[str, ...]):
    finished = cli("run", "--conf", "tune.yaml", *SMALL, *settings, cwd=project)
    assert finished.returncode == 0, finished.stderr
    rows = metric_rows(record(project))
    assert len(rows) == 4
    assert max(row["signal/tokens_nonzero_advantage"] for row in rows) > 0


def test_a_checkpoint_exports_to_a_model_that_generates_the_same(cli: Cli, greedy: Greedy, project: Path, tmp_path: Path):
    assert cli("run", "--conf", "tune.yaml", *SMALL, cwd=project).returncode == 0
    exported = cli("export", record(project).name, "--out", tmp_path / "out", cwd=project)
    assert exported.returncode == 0, exported.stderr
    assert greedy(tmp_path / "out") == greedy(record(project) / "checkpoints" / "step_4")
    assert greedy(tmp_path / "out") != greedy(project / "model")


def test_adapters_merge_into_a_model_that_generates_the_same(cli: Cli, greedy: Greedy, project: Path, tmp_path: Path):
    lora = ("--set=model.lora_rank=4", "--set=trainer_common.optim.lr=0.01")
    finished = cli("run", "--conf", "tune.yaml", *SMALL, *lora, cwd=project)
    assert finished.returncode == 0, finished.stderr
    merged = cli("export", record(project), "--merge-lora", "--out", tmp_path / "out", cwd=project)
    assert merged.returncode == 0, merged.stderr
    logits, ids = greedy(tmp_path / "out")
    adapted_logits, adapted_ids = greedy(record(project) / "checkpoints" / "step_4", project / "model")
    assert ids == adapted_ids
    assert logits == pytest.approx(adapted_logits, abs=1e-4)


def test_eval_scores_a_checkpoint_like_the_run_did(cli: Cli, project: Path):
    with_validation = ("--set=trainer_common.test_freq=4",)
    finished = cli("run", "--conf", "tune.yaml", *SMALL, *with_validation, cwd=project)
    assert finished.returncode == 0, finished.stderr
    during = metric_rows(record(project))[-1]
    checkpoint = record(project) / "checkpoints" / "step_4"
    after = cli("eval", "--conf", "tune.yaml", "--backbone=local", "--checkpoint", checkpoint, "--json", cwd=project)
    assert after.returncode == 0, after.stderr
    metrics = json.loads(after.stdout)
    assert metrics["val/reward/mean"] == during["val/reward/mean"]


def test_how_many_sequences_decode_at_once_changes_no_bit(cli: Cli, project: Path):
    names = ("together", "alone")
    for name, more in zip(names, ((), ("--set=rollout.name=local", "--set=rollout.local.max_num_seqs=1")), strict=True):
        finished = cli("run", "--conf", "tune.yaml", *SMALL, *more, f"--set=experiment_name={name}", cwd=project)
        assert finished.returncode == 0, finished.stderr
    assert metric_rows(record(project, names[0])) == metric_rows(record(project, names[1]))
    assert weights_digest(record(project, names[0]), 4) == weights_digest(record(project, names[1]), 4)


def test_options_of_the_engine_are_checked(cli: Cli, project: Path):
    refused = cli("run", "--conf", "tune.yaml", *SMALL, "--set=rollout.name=local", "--set=rollout.local.kv_token=9", cwd=project)
    assert refused.returncode == 2
    assert "Did you mean 'kv_tokens'?" in refused.stderr
