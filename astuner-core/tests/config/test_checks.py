from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from astuner.contract.errors import Problem
from astuner.settings.config.loading import LoadedConfig
from astuner.settings.config.paths import find_model_directory, resolve_path

Load = Callable[..., LoadedConfig]
OneProblem = Callable[..., Problem]
Problems = Callable[..., tuple[Problem, ...]]


@pytest.mark.parametrize("path", ["./nope", "/no/such/model", "path/to/model", "~/no-such-model"])
def test_directory_of_a_model_must_exist(problem: OneProblem, path: str) -> None:
    found = problem(f"astuner:\n  model:\n    path: {path}\n  rollout: {{user_workflow: a->B}}\n")
    assert (found.key, found.line) == ("astuner.model.path", 3)
    assert found.message.startswith("there is no directory /")


def test_workflow_is_required_unless_the_environment_leads(problem: OneProblem, load: Load) -> None:
    found = problem("astuner:\n  model: {path: org/name}\n")
    assert (found.key, found.line) == ("astuner.rollout.user_workflow", 1)
    load("astuner:\n  model: {path: org/name}\n  rollout: {use_agentscope_protocol: false}\n")


def test_a_workflow_and_an_environment_that_leads_exclude_each_other(problem: OneProblem) -> None:
    found = problem("    use_agentscope_protocol: false\n")
    assert (found.key, found.line) == ("astuner.rollout.user_workflow", 5)
    assert "Remove this key to play the environment, or the other to play the workflow" in found.message


def test_sections_of_environments_belong_to_those_that_tasks_may_name(load: Load) -> None:
    told = "environment.maze is not used: chosen is guess."
    assert told in load("  environment: {environment_type: guess, maze: {size: 3}}\n").notices
    assert not any("environment" in notice for notice in load("  environment: {maze: {size: 3}}\n").notices)


def test_a_misspelt_section_of_the_chosen_environment_is_a_problem(problem: OneProblem) -> None:
    found = problem("  environment:\n    environment_type: guess\n    gues: {x: 1}\n")
    assert (found.key, found.line, found.suggestion) == ("astuner.environment.gues", 8, "guess")


def test_an_unknown_preference_of_actions_is_a_problem(problem: OneProblem) -> None:
    found = problem("  environment: {env_action_preference: boxes}\n")
    assert (found.message, found.suggestion) == ("expected one of code, text, box, got the text 'boxes'.", "box")


def test_prompt_and_response_must_fit_into_the_context(problem: OneProblem) -> None:
    found = problem("    max_model_len: 17999\n")
    assert (found.key, found.line) == ("astuner.rollout.max_model_len", 6)
    assert "(3000)" in found.message
    assert "(15000)" in found.message
    assert "(17999)" in found.message


def test_more_mini_batches_than_tasks_are_refused(problem: OneProblem) -> None:
    found = problem("  data: {train_batch_size: 2}\n  trainer_common: {mini_batch_num: 3}\n")
    assert (found.key, found.line) == ("astuner.trainer_common.mini_batch_num", 7)


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ("{}", True),
        ("{do_sample: true, temperature: 0}", True),
        ("{do_sample: true, temperature: 0.5}", False),
    ],
)
def test_several_greedy_validation_samples_are_remarked_on(load: Load, kwargs: str, said: bool) -> None:
    notices = load(f"    val_kwargs: {kwargs}\n  trainer_common: {{val_pass_n: 4}}\n").notices
    assert any("val_pass_n is 4" in notice for notice in notices) is said


@pytest.mark.parametrize(("kwargs", "samples"), [("{}", 1), ("{do_sample: true, temperature: 0.5}", 4)])
def test_validation_samples_are_as_many_as_differ_unless_they_are_set(load: Load, kwargs: str, samples: int) -> None:
    loaded = load(f"    val_kwargs: {kwargs}\n")
    assert loaded.config.trainer_common.val_pass_n == samples
    assert loaded.resolved["trainer_common"]["val_pass_n"] == samples
    assert loaded.notices == ()


def test_temperature_of_a_greedy_validation_is_remarked_on(load: Load) -> None:
    notices = load("    val_kwargs: {temperature: 0.5}\n  trainer_common: {val_pass_n: 1}\n").notices
    assert [notice.split()[0] for notice in notices] == ["rollout.val_kwargs.temperature"]


def test_adapters_without_a_rank_are_remarked_on(load: Load) -> None:
    notices = load("  trainer_common: {val_pass_n: 1}\n", ["model.lora_alpha=32"]).notices
    assert notices == ("model.lora_alpha: without effect, since model.lora_rank is 0 (all weights are trained).",)


def test_judges_named_twice_are_refused(problem: OneProblem) -> None:
    found = problem("  task_judge:\n    judge_protocol: a->B\n    judges: [{judge: math}]\n")
    assert (found.key, found.line) == ("astuner.task_judge.judges", 8)


def test_protocol_beside_another_judge_is_remarked_on(load: Load) -> None:
    notices = load("  task_judge: {judge_type: math, judge_protocol: a->B}\n").notices
    assert any(notice.startswith("task_judge.judge_protocol is not used") for notice in notices)


@pytest.mark.parametrize(
    ("judges", "key", "said"),
    [
        ("[{judge: math}, {judge: math}]", "judges[1].judge", "two judges are known as 'math'"),
        ("[{judge: math, name: llm}, {judge: llm}]", "judges[1].judge", "two judges are known as 'llm'"),
        ("[{judge: math, requires: {llm: 1.0}}]", "judges", "'math' requires 'llm'; there are: math"),
        ("[{judge: ./a.py:A}, {judge: math, requires: {A: 1.0}}]", "judges", r"'math' requires 'A'; there are: judges[0], math"),
        ("[{judge: math, shape: {low: 1.0, high: 0.5}}]", "judges[0].shape.high", "high (0.5) is below low (1)"),
    ],
)
def test_a_composition_that_cannot_be_is_refused(problem: OneProblem, judges: str, key: str, said: str) -> None:
    found = problem(f"  task_judge: {{judges: {judges}}}\n")
    assert found.key == f"astuner.task_judge.{key}"
    assert said in found.message


def test_one_judge_under_two_names_is_two_judges(load: Load) -> None:
    load("  task_judge: {judges: [{judge: llm, name: style}, {judge: llm, name: tone, requires: {style: 0.5}}]}\n")


def test_shaping_without_a_judge_is_remarked_on(load: Load) -> None:
    loaded = load("  task_judge: {reward: {overlong: {from_tokens: 100, over_tokens: 50}}}\n")
    assert any(notice.startswith("task_judge.reward has no effect") for notice in loaded.notices)


def test_misspelt_section_of_a_component_has_a_suggestion(problem: OneProblem) -> None:
    found = problem("  task_reader:\n    type: dataset_file\n    datset_file: {}\n")
    assert (found.key, found.line, found.suggestion) == ("astuner.task_reader.datset_file", 8, "dataset_file")


def test_section_of_a_component_that_is_not_chosen_is_remarked_on(load: Load) -> None:
    notices = load("  task_judge: {judge_protocol: math, acme: {x: 1}}\n").notices
    assert "task_judge.acme is not used: chosen is math." in notices


@pytest.mark.parametrize(
    ("section", "key", "suggestion"),
    [
        ("adv_estimtor: grpo", "adv_estimtor", "adv_estimator"),
        ("filter_goups: {enable: true}", "filter_goups", "filter_groups"),
        ("entropy_crtl: {coeff: 0.1}", "entropy_crtl", "entropy_ctrl"),
        ("entropy_ctrl: {coef: 0.1}", "entropy_ctrl.coef", "coeff"),
        ("policy_loss: mine, mien: {bound: 2}", "mien", "mine"),
    ],
)
def test_typos_next_to_the_sections_of_losses_have_a_suggestion(
    problem: OneProblem, section: str, key: str, suggestion: str
) -> None:
    found = problem(f"  trainer_common:\n    algorithm: {{{section}}}\n")
    assert (found.key, found.suggestion) == (f"astuner.trainer_common.algorithm.{key}", suggestion)


def test_sections_of_losses_that_are_not_chosen_are_kept_if_there_are_such_losses(load: Load) -> None:
    told = "trainer_common.algorithm.acme is not used: chosen is grpo, ppo_clip."
    notices = load("  trainer_common:\n    algorithm: {gspo: {clip_ratio_low: 0.1}, acme: {x: 1}}\n").notices
    assert [notice for notice in notices if "algorithm" in notice] == [told]


def test_directory_of_a_service_must_exist(problem: OneProblem) -> None:
    found = problem("  services:\n    env: {command: run, cwd: gone}\n")
    assert (found.key, found.line) == ("astuner.services.env.cwd", 7)


def test_paths_start_from_the_yaml() -> None:
    assert resolve_path("../data/x.jsonl", Path("/project/conf")) == Path("/project/data/x.jsonl")
    assert resolve_path("/data/x.jsonl", Path("/project/conf")) == Path("/data/x.jsonl")


@pytest.mark.parametrize("name", ["Qwen/Qwen3-0.6B", "gpt2", "qwen-max", "qwen3:8b"])
def test_name_of_a_model_is_no_directory(tmp_path: Path, name: str) -> None:
    assert find_model_directory(name, tmp_path) is None


@pytest.fixture
def adapters(tmp_path: Path) -> Path:
    """A directory of LoRA adapters."""
    (tmp_path / "adapters").mkdir()
    content = {"base_model_name_or_path": "org/base", "r": 4, "lora_alpha": 8, "target_modules": ["v_proj", "q_proj"]}
    (tmp_path / "adapters" / "adapter_config.json").write_text(json.dumps(content))
    return tmp_path / "adapters"


@pytest.mark.parametrize(
    "content",
    [b'{"r": 8,', b"[]", b"\xff", b'{"r": 8}', b'{"base_model_name_or_path": "org/base", "r": "x"}'],
    ids=["half a file", "no mapping", "no text", "no base", "rank in words"],
)
def test_adapters_whose_file_is_damaged_are_named(problem: OneProblem, adapters: Path, content: bytes) -> None:
    (adapters / "adapter_config.json").write_bytes(content)
    found = problem("", [f"model.path={adapters}"])
    assert found.key == "astuner.model.path"
    assert "adapter_config.json does not describe LoRA adapters" in found.message


@pytest.mark.parametrize(
    ("key", "asked", "has"),
    [
        ("lora_rank", "16", "lora_rank 4, and this asks for 16"),
        ("lora_rank", "0", r"lora_rank 4, and this asks for 0 \(train all weights\)"),
        ("lora_alpha", "32", r"lora_alpha 8, and this asks for 32\.0"),
        ("target_modules", "[q_proj]", r"target_modules \('q_proj', 'v_proj'\), and this asks for \('q_proj',\)"),
    ],
)
def test_a_key_that_the_adapters_of_the_model_do_not_have_is_refused(
    problem: OneProblem, adapters: Path, key: str, asked: str, has: str
) -> None:
    found = problem("", [f"model.path={adapters}", f"model.{key}={asked}"])
    assert found.key == f"astuner.model.{key}"
    assert re.search(has, found.message)


@pytest.mark.parametrize("more", [[], ["model.lora_rank=4", "model.lora_alpha=8", "model.target_modules=[q_proj,v_proj]"]])
def test_adapters_are_trained_on_as_they_are_with_a_notice(load: Load, adapters: Path, more: list[str]) -> None:
    notices = load("  trainer_common: {val_pass_n: 1}\n", [f"model.path={adapters}", *more]).notices
    assert [notice.partition(":")[0] for notice in notices] == ["model.path holds LoRA adapters (rank 4) of org/base"]
