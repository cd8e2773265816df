"""What `trl grpo --config FILE` reads becomes a run on one machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from astuner.settings.config.importers import Answer
from astuner.settings.config.trees import flatten
from astuner_local.trl_importer import DROPPED, IGNORED, READERS, RENAMED, TrlImporter

FIELDS: list[str] = json.loads((Path(__file__).parent / "grpo_config_fields.json").read_text())["trl 1.16.0, GRPOConfig"]
FILE: Mapping[str, Any] = {
    "model_name_or_path": "org/model",
    "dataset_name": "org/sums",
    "learning_rate": 1e-5,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 8,
    "num_generations": 8,
    "max_completion_length": 256,
    "beta": 0.04,
    "loss_type": "dapo",
    "scale_rewards": "none",
    "lr_scheduler_type": "cosine",
    "eval_strategy": "steps",
    "eval_steps": 50,
    "save_strategy": "no",
    "report_to": ["wandb"],
    "reward_funcs": ["accuracy_reward"],
    "made_up": 1,
}


def translate(values: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Answer]]:
    translation = TrlImporter().translate(values)
    return flatten(translation.roots["astuner"]), {answer.key: answer for answer in translation.answers}


def test_a_file_in_our_keys() -> None:
    found, answers = translate(FILE)
    assert found == {
        "backbone": "local",
        "model.path": "org/model",
        "task_reader.type": "huggingface_dat_repo",
        "task_reader.huggingface_dat_repo.dataset_path": "org/sums",
        "task_reader.huggingface_dat_repo.training_split": "train",
        "task_reader.huggingface_dat_repo.validation_split": "test",
        "task_reader.huggingface_dat_repo.columns.main_query": "prompt",
        "data.train_batch_size": 8,
        "data.max_response_length": 256,
        "rollout.num_repeat": 8,
        "trainer_common.optim.lr": 1e-5,
        "trainer_common.optim.lr_scheduler_type": "cosine",
        "trainer_common.use_kl_loss": True,
        "trainer_common.kl_loss_coef": 0.04,
        "trainer_common.loss_agg_mode": "token-mean",
        "trainer_common.algorithm.norm_adv_by_std_in_grpo": False,
        "trainer_common.test_freq": 50,
        "trainer_common.save_freq": -1,
        "trainer_common.logger": ["console", "wandb"],
    }
    assert answers["reward_funcs"].kind == answers["made_up"].kind == "dropped"


def test_every_key_is_answered_once_in_order() -> None:
    assert [answer.key for answer in TrlImporter().translate(FILE).answers] == list(FILE)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"num_generations": 7}, "per_device_train_batch_size"),
        ({"loss_type": "cispo"}, "loss_type"),  # its largest weight is 0.2
        ({"loss_type": "vespo"}, "loss_type"),
        ({"loss_type": "sapo", "importance_sampling_level": "sequence"}, "importance_sampling_level"),
        ({"loss_type": "bnpo"}, "loss_type"),
        ({"importance_sampling_level": "word"}, "importance_sampling_level"),
        ({"delta": 1.1}, "delta"),
        ({"delta": 4.0, "importance_sampling_level": "sequence"}, "delta"),
        ({"use_adaptive_entropy": True, "entropy_coef_min": 0.1}, "use_adaptive_entropy"),
        ({"off_policy_mask_threshold": 0.1}, "off_policy_mask_threshold"),
        ({"use_vllm": True, "vllm_importance_sampling_mode": "icepop"}, "vllm_importance_sampling_mode"),
        ({"use_vllm": True, "vllm_importance_sampling_mode": "token_mask", "importance_sampling_level": "sequence"}, "use_vllm"),
        (
            {"use_vllm": True, "vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_min": 0.5},
            "vllm_importance_sampling_clip_min",
        ),
        ({"scale_rewards": "batch"}, "scale_rewards"),
        ({"lr_scheduler_type": "polynomial"}, "lr_scheduler_type"),
        ({"report_to": "comet"}, "report_to"),
        ({"gradient_accumulation_steps": "many"}, "gradient_accumulation_steps"),
    ],
)
def test_a_value_without_a_counterpart_is_left_out_with_the_reason(change: Mapping[str, Any], key: str) -> None:
    _, answers = translate({**FILE, **change})
    assert answers[key].kind == "dropped"
    assert answers[key].reason


@pytest.mark.parametrize(
    ("change", "key", "reason"),
    [
        ({"vllm_importance_sampling_clip_max": 2.0}, "vllm_importance_sampling_clip_max", "use_vllm is off"),
        ({"use_vllm": False}, "use_vllm", "use_vllm is off"),
        (
            {"use_vllm": True, "vllm_importance_sampling_correction": False, "vllm_importance_sampling_mode": "token_mask"},
            "vllm_importance_sampling_mode",
            "vllm_importance_sampling_correction is off",
        ),
        ({"entropy_target": 0.3}, "entropy_target", "use_adaptive_entropy is off"),
        ({"sapo_temperature_pos": 0.5}, "sapo_temperature_pos", "it is an option of the loss sapo"),
        ({"loss_type": "sapo", "epsilon": 0.1}, "epsilon", "the loss sapo has no bounds"),
        ({"loss_type": "sapo", "delta": 4.0}, "delta", "the loss sapo has no such bound"),
    ],
)
def test_a_key_without_effect_there_is_ignored_with_the_reason(change: Mapping[str, Any], key: str, reason: str) -> None:
    found, answers = translate({**FILE, **change})
    assert (answers[key].kind, answers[key].reason) == ("ignored", reason)
    assert not any("rollout_is" in name or "clip_ratio" in name or "entropy" in name for name in found)


def test_entropy_that_follows_a_target_is_translated_with_the_difference() -> None:
    found, answers = translate({**FILE, "use_adaptive_entropy": True, "entropy_coef": 0.01, "entropy_coef_max": 0.5})
    kept = {name.rpartition(".")[2]: value for name, value in found.items() if ".entropy_ctrl." in name}
    assert kept == {"coeff": 0.01, "target": 0.2, "delta": 0.005, "most": 0.5}
    assert "after each optimizer step there" in answers["use_adaptive_entropy"].reason
    assert "averaged over tokens there" in answers["entropy_coef"].reason


def test_the_older_name_of_the_largest_weight_is_read() -> None:
    found, _ = translate({**FILE, "use_vllm": True, "vllm_importance_sampling_cap": 2.5})
    assert found["trainer_common.algorithm.rollout_is_threshold"] == 2.5


def test_no_divergence_is_measured_where_trl_measures_none() -> None:
    assert translate({**FILE, "beta": 0.0})[0]["trainer_common.use_kl_loss"] is False


def test_no_key_has_two_answers() -> None:
    tables = [RENAMED, READERS, DROPPED, IGNORED]
    keys = [key for table in tables for key in table]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("value", [None, 1, "x", [], {}])
def test_every_field_of_grpo_config_is_answered(value: object) -> None:
    assert len(FIELDS) > 70
    answers = TrlImporter().translate({**dict.fromkeys(FIELDS, value), "num_generations": 8}).answers
    assert [answer.key for answer in answers] == list(dict.fromkeys([*FIELDS, "num_generations"]))
    assert [answer.key for answer in answers if not (answer.keys or answer.reason)] == []


def test_most_fields_of_grpo_config_have_an_answer_of_their_own() -> None:
    generic = [field for field in FIELDS if field not in {*RENAMED, *READERS, *DROPPED, *IGNORED}]
    assert len(generic) <= 12, generic


def test_no_file_is_taken_for_one_of_trl() -> None:
    assert not TrlImporter().claims(FILE)
