"""A configuration that was written for Trinity becomes one of ours: each key arrives, or is answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from astuner.settings.config.loading import load_config
from astuner.settings.config.native import align
from astuner.settings.config.trees import flatten, get, merge, put
from astuner_tools.config_import.importing import Imported, import_config
from astuner_trinity.alignment import ALIGNMENT
from astuner_trinity.defaults import trinity_defaults

GUIDE = json.loads((Path(__file__).parent / "guide_keys.json").read_text())
YAML = """
project: sums
name: small
mode: both
checkpoint_root_dir: ${oc.env:CHECKPOINTS,./checkpoints}
algorithm:
  algorithm_type: grpo
  repeat_times: 8
  optimizer: {lr: 1e-5, lr_warmup_steps: 10}
  kl_loss_fn: k2
  kl_loss_fn_args: {kl_coef: 0.01}
model:
  model_path: org/model
  max_response_tokens: 1024
  max_model_len: 2048
cluster: {node_num: 1, gpu_per_node: 8}
buffer:
  total_epochs: 2
  batch_size: 96
  train_batch_size: 768
  explorer_input:
    taskset:
      name: sums
      storage_type: file
      path: org/sums
      subset_name: main
      split: train
      format: {prompt_key: question, response_key: answer}
      rollout_args: {temperature: 0.9}
    eval_tasksets:
      - {name: check, storage_type: file, path: org/sums, subset_name: main, split: test, repeat_times: 4}
    default_workflow_type: math_workflow
  trainer_input:
    experience_buffer: {name: rows, storage_type: queue}
explorer:
  eval_interval: 50
  runner_per_model: 8
  rollout_model: {engine_num: 2, tensor_parallel_size: 1, enforce_eager: true, dtype: bfloat16, seed: 42}
synchronizer: {sync_method: nccl, sync_interval: 1, sync_timeout: 1200}
trainer: {save_interval: 100, grad_clip: 1.0, max_token_len_per_gpu: 16384}
monitor: {monitor_type: tensorboard}
"""
OURS = {
    "project_name": "sums",
    "experiment_name": "small",
    "backbone": "trinity",
    "model.path": "org/model",
    "model.dtype": "bfloat16",
    "data.train_batch_size": 96,
    "data.max_prompt_length": 1024,
    "data.max_response_length": 1024,
    "rollout.max_model_len": 2048,
    "rollout.num_repeat": 8,
    "rollout.temperature": 0.9,
    "rollout.n_vllm_engine": 2,
    "trainer_common.optim.lr": 1e-5,
    "trainer_common.optim.lr_warmup_steps": 10,
    "trainer_common.use_kl_loss": True,
    "trainer_common.kl_loss_coef": 0.01,
    "trainer_common.kl_loss_type": "mse",
    "trainer_common.total_epochs": 2,
    "trainer_common.test_freq": 50,
    "trainer_common.save_freq": 100,
    "trainer_common.val_pass_n": 4,
    "task_reader.type": "huggingface_dat_repo",
}


def take(tmp_path: Path, text: str) -> tuple[Imported, Path]:
    source, target = tmp_path / "theirs.yaml", tmp_path / "tune.yaml"
    source.write_text(text)
    imported = import_config(source, "trinity", target)
    target.write_text(imported.text)
    (tmp_path / "agent.py").write_text(imported.agent or "")
    return imported, target


def test_what_we_decide_arrives_under_our_names(tmp_path: Path) -> None:
    imported, target = take(tmp_path, YAML)
    loaded = load_config(target)
    found = flatten(loaded.resolved)
    assert {key: found[key] for key in OURS} == OURS
    assert imported.open_problems == ()
    assert align(ALIGNMENT, loaded, ask_trainer=not imported.is_unchecked).problems == ()


def test_what_is_left_out_has_a_reason_and_the_rest_stays_native(tmp_path: Path) -> None:
    imported, target = take(tmp_path, YAML)
    answers = {answer.key: answer for answer in imported.answers}
    left_out = {key for key, answer in answers.items() if answer.kind == "dropped"}
    assert left_out >= {"checkpoint_root_dir", "buffer.explorer_input.default_workflow_type"}
    assert all(answers[key].reason for key in left_out)
    assert load_config(target).native["trinity"]["explorer"]["rollout_model"]["enforce_eager"] is True


@pytest.mark.parametrize(
    ("algorithm", "arguments", "expected"),
    [
        ("gspo", "{clip_range_low: 0.001}", {"algorithm.policy_loss": "gspo", "algorithm.gspo.clip_ratio_low": 0.001}),
        ("cispo", "{}", {"algorithm.policy_loss": "cispo", "algorithm.cispo.clip_ratio_high": 0.28}),
        ("cispo", "{clip_range_high: 0.5}", {"algorithm.adv_estimator": "grpo", "algorithm.cispo.clip_ratio_high": 0.5}),
        ("grpo", "{clip_range: 0.1, clip_ratio_c: 4.0}", {"clip_ratio_low": 0.1, "clip_ratio_high": 0.1, "clip_ratio_c": 4.0}),
    ],
)
def test_a_loss_whose_formula_is_the_same_arrives_with_its_bounds(
    tmp_path: Path, algorithm: str, arguments: str, expected: dict[str, Any]
) -> None:
    lines = f"algorithm_type: {algorithm}\n  policy_loss_fn_args: {arguments}\n  entropy_loss_fn_args: {{entropy_coef: 0.01}}"
    imported, target = take(tmp_path, YAML.replace("algorithm_type: grpo", lines))
    loaded = load_config(target)
    found = flatten(loaded.resolved)
    expected |= {"algorithm.entropy_ctrl.coeff": 0.01}
    assert {key: found[f"trainer_common.{key}"] for key in expected} == expected
    assert align(ALIGNMENT, loaded, ask_trainer=not imported.is_unchecked).problems == ()


@pytest.mark.parametrize(("algorithm", "arguments"), [("sapo", "{tau_pos: 2.0}"), ("cispo", "{enable_mask_clip: true}")])
def test_a_loss_of_another_formula_stays_trinitys(tmp_path: Path, algorithm: str, arguments: str) -> None:
    lines = f"algorithm_type: {algorithm}\n  policy_loss_fn_args: {arguments}"
    _, target = take(tmp_path, YAML.replace("algorithm_type: grpo", lines))
    found = load_config(target).native["trinity"]["algorithm"]
    assert (found["algorithm_type"], len(found["policy_loss_fn_args"])) == (algorithm, 1)


@pytest.mark.parametrize("algorithm", ["ppo", "gspo", "rloo"])
def test_algorithms_of_their_own(tmp_path: Path, algorithm: str) -> None:
    imported, _ = take(tmp_path, YAML.replace("algorithm_type: grpo", f"algorithm_type: {algorithm}"))
    answer = next(answer for answer in imported.answers if answer.key == "algorithm.algorithm_type")
    kind = {"ppo": "dropped", "gspo": "translated", "rloo": "translated"}[algorithm]
    assert answer.kind == kind, answer


def test_every_key_of_the_guide_is_answered(tmp_path: Path) -> None:
    import yaml

    keys: list[str] = GUIDE["trinity"]
    tree: dict[str, Any] = {}
    defaults = trinity_defaults()
    leaves = [key for key in keys if not any(other.startswith(f"{key}.") for other in keys)]
    for key in leaves:
        put(tree, key, get(defaults, key))
    tree = merge(tree, {"model": {"model_path": "org/model"}})
    imported, target = take(tmp_path, yaml.safe_dump(tree, sort_keys=False))
    assert [answer.key for answer in imported.answers] == list(flatten(tree))
    assert all(answer.keys or answer.reason for answer in imported.answers)
    (tmp_path / "tasks.jsonl").write_text("{}\n")
    loaded = load_config(target)
    assert align(ALIGNMENT, loaded, ask_trainer=not imported.is_unchecked).problems == ()


def test_of_several_validation_sets_the_first_is_taken(tmp_path: Path) -> None:
    another = "      - {name: other, storage_type: file, path: org/others, split: test}\n    default_workflow_type"
    imported, target = take(tmp_path, YAML.replace("    default_workflow_type", another))
    answers = {answer.key: answer for answer in imported.answers}
    assert "the first of 2 validation sets" in answers["buffer.explorer_input.eval_tasksets"].reason
    found = flatten(load_config(target).resolved)
    assert found["task_reader.huggingface_dat_repo.dataset_path"] == "org/sums"
    assert "Not the same:" in imported.text


def test_a_run_without_tasks_names_a_file_for_them(tmp_path: Path) -> None:
    text = "model: {model_path: org/model, temperature: 0.7}\nmode: train\ndata_processor: {}\nbuffer: {train_batch_size: 64}\n"
    imported, target = take(tmp_path, text)
    assert [problem.key for problem in imported.open_problems] == ["astuner.task_reader.dataset_file.training.file_path"]
    assert "temperature: 0.7" in target.read_text()
    assert next(answer for answer in imported.answers if answer.key == "data_processor").kind == "ignored"
