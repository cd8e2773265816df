"""A configuration that was written for verl becomes one of ours: each key arrives, or is answered."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from astuner.runs.training import Correction
from astuner.settings.config.loading import load_config
from astuner.settings.config.native import align
from astuner.settings.config.trees import flatten
from astuner_tools.config_import.importing import Imported, import_config
from astuner_tools.config_import.native_keys import translate_native
from astuner_verl.alignment import ALIGNMENT

SCRIPT = """
set -x
MODEL=org/model
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.train_files=train.parquet data.val_files=test.parquet \\
    data.train_batch_size=1024 data.max_prompt_length=512 data.max_response_length=1024 \\
    data.filter_overlong_prompts=True data.truncation='error' \\
    actor_rollout_ref.model.path=$MODEL \\
    actor_rollout_ref.model.enable_gradient_checkpointing=True \\
    actor_rollout_ref.actor.optim.lr=1e-6 \\
    actor_rollout_ref.actor.ppo_mini_batch_size=256 \\
    actor_rollout_ref.actor.use_kl_loss=True actor_rollout_ref.actor.kl_loss_coef=0.001 \\
    actor_rollout_ref.actor.kl_loss_type=low_var_kl actor_rollout_ref.actor.entropy_coeff=0 \\
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=5 \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \\
    algorithm.use_kl_in_reward=False \\
    trainer.critic_warmup=0 trainer.logger='["console","wandb"]' trainer.project_name=sums trainer.experiment_name=small \\
    trainer.n_gpus_per_node=8 trainer.nnodes=1 trainer.save_freq=20 trainer.test_freq=5 trainer.total_epochs=15 $@
"""
OURS = {
    "backbone": "verl",
    "project_name": "sums",
    "experiment_name": "small",
    "model.path": "org/model",
    "data.train_batch_size": 1024,
    "data.max_prompt_length": 512,
    "data.max_response_length": 1024,
    "rollout.name": "vllm",
    "rollout.num_repeat": 5,
    "rollout.tensor_model_parallel_size": 2,
    "trainer_common.mini_batch_num": 4,
    "trainer_common.optim.lr": 1e-6,
    "trainer_common.use_kl_loss": True,
    "trainer_common.kl_loss_coef": 0.001,
    "trainer_common.save_freq": 20,
    "trainer_common.test_freq": 5,
    "trainer_common.total_epochs": 15,
    "task_reader.type": "dataset_file",
}


def take(tmp_path: Path, text: str, name: str) -> tuple[Imported, Path]:
    source, target = tmp_path / name, tmp_path / "tune.yaml"
    (tmp_path / "train.parquet").touch()
    (tmp_path / "test.parquet").touch()
    source.write_text(text)
    imported = import_config(source, "verl", target)
    target.write_text(imported.text)
    (tmp_path / "agent.py").write_text(imported.agent or "")
    return imported, target


def test_a_script_arrives_under_our_names(tmp_path: Path) -> None:
    imported, target = take(tmp_path, SCRIPT, "run.sh")
    loaded = load_config(target)
    found = flatten(loaded.resolved)
    assert {key: found[key] for key in OURS} == OURS
    assert found["trainer_common.logger"] == ["console", "wandb"]
    assert imported.open_problems == ()
    assert align(ALIGNMENT, loaded, ask_trainer=not imported.is_unchecked).problems == ()


def test_a_file_that_is_not_here_stays_for_the_user_to_provide(tmp_path: Path) -> None:
    imported, _ = take(tmp_path, SCRIPT.replace("train.parquet", "/elsewhere/train.parquet"), "run.sh")
    assert [problem.key for problem in imported.open_problems] == ["astuner.task_reader.dataset_file.training.file_path"]
    assert "/elsewhere/train.parquet" in imported.text


def test_every_key_of_the_script_has_an_answer(tmp_path: Path) -> None:
    imported, target = take(tmp_path, SCRIPT, "run.sh")
    assert len(imported.answers) == 30
    assert all(answer.keys or answer.reason for answer in imported.answers)
    assert load_config(target).native["verl"]["actor_rollout_ref"]["rollout"]["gpu_memory_utilization"] == 0.6


def test_the_whole_of_verls_own_defaults_is_answered_and_valid(tmp_path: Path) -> None:
    defaults = json.loads((Path(__file__).parent / "ppo_trainer.json").read_text())
    defaults["data"] |= {"train_files": "train.parquet", "val_files": "test.parquet"}
    defaults["actor_rollout_ref"]["model"]["path"] = "org/model"
    imported, target = take(tmp_path, json.dumps(defaults), "ppo.yaml")
    answered = [answer.key for answer in imported.answers]
    # A section that is an interpolation has keys of its own once it is resolved.
    assert [leaf for leaf in flatten(defaults) if not any(f"{key}.".startswith(f"{leaf}.") for key in answered)] == []
    assert align(ALIGNMENT, load_config(target), ask_trainer=not imported.is_unchecked).problems == ()


ARRAYS = """
MODEL=${MODEL:-${MODEL_ROOT:-org}/model}
DEVICE=${DEVICE:-$(probe_device)}
LENGTH=${LENGTH:-1024}
BUFFER=$((LENGTH / 4))
NAME=${NAME:-small_$(date +%Y)}
DATA=(
    data.train_files="['train.parquet', 'more.parquet']" data.val_files=test.parquet
    data.train_batch_size=32 data.max_response_length=${LENGTH} data.shuffle=False data.truncation=left data.image_key=images
)
ACTOR=(
    actor_rollout_ref.model.path="$MODEL"
    actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4
    +actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method=uniform
    actor_rollout_ref.rollout.temperature=0.8 actor_rollout_ref.rollout.n=4
)
case "$DEVICE" in
    gpu) EXTRA=(model_engine=megatron trainer.nnodes=$NNODES_OF_MINE) ;;
    *) EXTRA=(model_engine=veomni) ;;
esac
python3 -m verl.trainer.main_ppo "${DATA[@]}" "${ACTOR[@]}" "${EXTRA[@]}" \\
    reward.reward_manager.name=dapo \\
    +reward.reward_kwargs.overlong_buffer_cfg.enable=True +reward.reward_kwargs.overlong_buffer_cfg.len=$BUFFER \\
    +reward.reward_kwargs.overlong_buffer_cfg.penalty_factor=0.5 +reward.reward_kwargs.max_resp_len=$LENGTH \\
    trainer.experiment_name=$NAME algorithm.gamma=1.0 "$@"
"""
ARRAYS_OURS = {
    "model.path": "org/model",
    "data.train_batch_size": 32,
    "data.shuffle": False,
    "rollout.temperature": 0.8,
    "rollout.num_repeat": 4,
    "task_judge.reward.overlong.from_tokens": 768,
    "task_judge.reward.overlong.over_tokens": 256,
    "task_judge.reward.overlong.penalty": 0.5,
}


def test_a_script_of_arrays_and_branches_arrives(tmp_path: Path) -> None:
    imported, target = take(tmp_path, ARRAYS, "run.sh")
    loaded = load_config(target)
    found = flatten(loaded.resolved)
    assert {key: found[key] for key in ARRAYS_OURS} == ARRAYS_OURS
    assert found["task_reader.dataset_file.training.file_path"].endswith("train.parquet")
    assert imported.open_problems == ()
    assert align(ALIGNMENT, loaded, ask_trainer=not imported.is_unchecked).problems == ()


def test_what_of_a_script_does_not_come_along_has_a_reason_of_its_own(tmp_path: Path) -> None:
    imported, _ = take(tmp_path, ARRAYS, "run.sh")
    answers = {answer.key: answer for answer in imported.answers}
    assert "the first of 2 files" in answers["data.train_files"].reason
    assert "images" in answers["data.image_key"].reason
    megatron = "actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method"
    assert "FSDP is the training engine" in answers[megatron].reason
    for key in ("model_engine", "trainer.nnodes"):
        assert "under `case`, which is not run here" in answers[key].reason
    assert "$(date +%Y)" in answers["trainer.experiment_name"].reason
    assert all(answer.keys or answer.reason for answer in imported.answers)


def test_a_penalty_that_is_switched_off_is_not_taken_over(tmp_path: Path) -> None:
    imported, target = take(tmp_path, ARRAYS.replace("enable=True", "enable=False"), "run.sh")
    assert "overlong" not in target.read_text().partition("astuner:")[2]
    kinds = {answer.key: answer.kind for answer in imported.answers}
    assert kinds["reward.reward_kwargs.overlong_buffer_cfg.len"] == "ignored"


ACTOR = "actor_rollout_ref.actor"
ALGORITHM = "trainer_common.algorithm"
LOSSES = [
    (
        {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28, "clip_ratio_c": 10.0},
        {"trainer_common.clip_ratio_low": 0.2, "trainer_common.clip_ratio_high": 0.28, "trainer_common.clip_ratio_c": 10.0},
    ),
    (
        {"policy_loss": {"loss_mode": "vanilla"}, "clip_ratio": 0.1},
        {f"{ALGORITHM}.policy_loss": "ppo_clip", "trainer_common.clip_ratio_low": 0.1, "trainer_common.clip_ratio_high": 0.1},
    ),
    (
        {"policy_loss": {"loss_mode": "gspo"}, "clip_ratio_low": 3e-4, "clip_ratio_high": 4e-4, "loss_agg_mode": "token-mean"},
        {
            f"{ALGORITHM}.policy_loss": "gspo",
            f"{ALGORITHM}.gspo.clip_ratio_low": 3e-4,
            f"{ALGORITHM}.gspo.clip_ratio_high": 4e-4,
            "trainer_common.loss_agg_mode": "token-mean",
        },
    ),
    (
        {"policy_loss": {"loss_mode": "geo_mean"}, "clip_ratio": 0.4, "loss_agg_mode": "token-mean"},
        {
            f"{ALGORITHM}.policy_loss": "gmpo",
            f"{ALGORITHM}.gmpo.clip_log_ratio_low": 0.4,
            f"{ALGORITHM}.gmpo.clip_log_ratio_high": 0.4,
            # Whatever is asked of verl.
            "trainer_common.loss_agg_mode": "seq-mean-token-mean",
        },
    ),
    (
        {"policy_loss": {"loss_mode": "cispo"}, "clip_ratio_low": 1.0, "clip_ratio_high": 4.0},
        {
            f"{ALGORITHM}.policy_loss": "cispo",
            f"{ALGORITHM}.cispo.clip_ratio_low": 1.0,
            f"{ALGORITHM}.cispo.clip_ratio_high": 4.0,
        },
    ),
    (
        {"policy_loss": {"loss_mode": "sapo"}, "tau_pos": 1.5, "tau_neg": 2.0},
        {
            f"{ALGORITHM}.policy_loss": "sapo",
            f"{ALGORITHM}.sapo.tau_positive": 1.5,
            f"{ALGORITHM}.sapo.tau_negative": 2.0,
            "trainer_common.loss_agg_mode": "seq-mean-token-mean",
        },
    ),
    (
        {"policy_loss": {"loss_mode": "dppo_kl"}, "clip_ratio_low": 0.05, "clip_ratio_high": 0.06, "clip_ratio_c": 20.0},
        {
            f"{ALGORITHM}.policy_loss": "dppo",
            f"{ALGORITHM}.dppo.divergence": "kl",
            f"{ALGORITHM}.dppo.clip_divergence_low": 0.05,
            f"{ALGORITHM}.dppo.clip_divergence_high": 0.06,
            f"{ALGORITHM}.dppo.clip_ratio_c": 20.0,
        },
    ),
    ({"entropy_coeff": 0.001}, {f"{ALGORITHM}.entropy_ctrl.coeff": 0.001}),
]


def translate(tree: Any) -> Any:
    """Return our keys and the answers, before the components that they name are looked for."""
    found = translate_native(ALIGNMENT, "verl", tree)
    ours = flatten(found.roots["astuner"])
    ours.pop("backbone")
    return ours, {answer.key: answer for answer in found.answers}


@pytest.mark.parametrize(("actor", "ours"), LOSSES, ids=[str(actor) for actor, _ in LOSSES])
def test_a_loss_arrives_with_its_options(actor: Any, ours: Any) -> None:
    found, answers = translate({"actor_rollout_ref": {"actor": actor}})
    assert found == ours
    assert {answer.kind for answer in answers.values()} == {"translated"}


@pytest.mark.parametrize(
    ("actor", "key", "said"),
    [
        ({"policy_loss": {"loss_mode": "clip_cov"}}, "policy_loss.loss_mode", "clip_cov: .*counterparts of vanilla, gspo"),
        ({"policy_loss": {"loss_mode": "sapo"}, "clip_ratio": 0.2}, "clip_ratio", "sapo clips no ratio"),
        ({"policy_loss": {"loss_mode": "gspo"}, "clip_ratio_c": 3.0}, "clip_ratio_c", "gspo has no dual clip"),
        ({"tau_pos": 1.0}, "tau_pos", "only sapo has temperatures"),
    ],
)
def test_what_a_loss_does_not_have_is_named(actor: Any, key: str, said: str) -> None:
    _, answers = translate({"actor_rollout_ref": {"actor": actor}})
    answer = answers[f"{ACTOR}.{key}"]
    assert answer.kind == "dropped"
    assert re.search(said, answer.reason)


CORRECTIONS = [
    ({"rollout_is": None, "rollout_is_threshold": 2.0, "rollout_rs": None, "bypass_mode": False}, {}),
    ({"rollout_is": "token"}, {"rollout_is": "token", "rollout_is_threshold": 2.0}),
    ({"rollout_is": "sequence", "rollout_is_threshold": "5.0"}, {"rollout_is": "sequence", "rollout_is_threshold": 5.0}),
    (
        {"rollout_is": "token", "rollout_is_threshold": "0.5_5.0"},
        {"rollout_is": "token", "rollout_is_threshold": 5.0, "rollout_is_lower": 0.5},
    ),
    ({"rollout_rs": "seq_max_k2", "rollout_rs_threshold": 2.5}, {"rollout_rs": "seq_max_k2", "rollout_rs_threshold": 2.5}),
    (
        {"rollout_rs": "seq_mean_k1", "rollout_rs_threshold": "0.999_1.001"},
        {"rollout_rs": "seq_mean_k1", "rollout_rs_threshold": 1.001, "rollout_rs_lower": 0.999},
    ),
]


@pytest.mark.parametrize(("theirs", "ours"), CORRECTIONS, ids=[str(theirs) for theirs, _ in CORRECTIONS])
def test_a_correction_for_the_sampler_arrives(theirs: Any, ours: Any, tmp_path: Path) -> None:
    found, answers = translate({"algorithm": {"rollout_correction": theirs}})
    assert found == {f"{ALGORITHM}.{key}": value for key, value in ours.items()}
    assert {answer.kind for answer in answers.values()} == ({"translated"} if ours else {"ignored"})
    head = {"backbone": "verl", "model": {"path": "org/model"}, "rollout": {"user_workflow": "agent:Agent"}}
    (tmp_path / "tune.yaml").write_text(json.dumps({"astuner": {**head, "trainer_common": {"algorithm": ours}}}))
    correction = Correction.of(load_config(tmp_path / "tune.yaml").config.trainer_common.algorithm)
    assert {key: getattr(correction, key) for key in ours} == ours


@pytest.mark.parametrize(
    ("theirs", "key", "said"),
    [
        ({"bypass_mode": True}, "bypass_mode", "never to the sampler's"),
        ({"bypass_mode": True, "loss_type": "reinforce"}, "loss_type", "it belongs to bypass_mode"),
        ({"rollout_is_batch_normalize": True}, "rollout_is_batch_normalize", "not normalised over a batch"),
        ({"rollout_rs": "token_k1,seq_max_k2", "rollout_rs_threshold": "2.0,3.0"}, "rollout_rs", "rollout_rs is one measure"),
        ({"rollout_is": "geometric"}, "rollout_is", "rollout_is has token, sequence"),
        ({"rollout_is": "token", "rollout_is_threshold": "high"}, "rollout_is_threshold", "high: a number, or two"),
    ],
)
def test_corrections_that_do_not_come_along_are_named(theirs: Any, key: str, said: str) -> None:
    found, answers = translate({"algorithm": {"rollout_correction": theirs}})
    answer = answers[f"algorithm.rollout_correction.{key}"]
    assert answer.kind == "dropped"
    assert said in answer.reason
    assert found == {}


@pytest.mark.parametrize(("theirs", "ours"), [("rloo", "rloo"), ("opo", "opo"), ("remax", "remax"), ("grpo_passk", "pass_at_k")])
def test_an_estimator_keeps_its_name_or_gets_ours(theirs: str, ours: str) -> None:
    assert translate({"algorithm": {"adv_estimator": theirs}})[0] == {f"{ALGORITHM}.adv_estimator": ours}
