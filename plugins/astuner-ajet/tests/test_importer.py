"""A YAML of AgentJet is read as it is: every key is translated, ignored, or named with what took its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from astuner.settings.config.loading import examine_config, load_config
from astuner_ajet.importer.ajet_importer import AjetImporter

AGENT = """
from ajet import Workflow, WorkflowOutput

class Agent(Workflow):
    async def execute(self, workflow_task, tuner):
        return WorkflowOutput(reward=1.0)
"""
YAML = """
ajet:
  model: {path: model}
  task_reader: {type: random_dummy}
  task_judge: {judge_protocol: null}
  rollout:
    user_workflow: agents/solver.py->Agent
    force_disable_toolcalls: true
    name: vllm
    mode: async
    compute_madness_checklist: None
  context_tracker: {timeline_merging_policy: {timeline_compare_level: text}}
  trainer_common: {checkpoint_base_dir: ./saved, save_trajectory_as_json_file: true}
  task_runner: {wrapper_type: asyncio, wrapper_multiprocessing_timeout: 60}
  interchange_server: {interchange_method: tcp}
  judge: {concurrency: 3}
frozen_lake: {frozen_lake_size: 4}
hydra: {searchpath: [file://ajet/default_config]}
defaults: [ajet_default, _self_]
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "solver.py").write_text(AGENT)
    (tmp_path / "model").mkdir()
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "lake.yaml").write_text(YAML)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(project, *overrides):
    return load_config(project / "configs" / "lake.yaml", overrides)


def test_a_whole_file_is_valid_and_its_keys_have_our_names(project):
    config = load(project).config
    assert config.rollout.agentscope_disable_toolcalls
    assert config.rollout.name == "auto"
    assert config.rollout.compute_madness_checklist == ()
    assert config.rollout.episode_timeout_s == 60
    assert config.context_tracker.timeline_merging_policy.timeline_compare_level == "token"


def test_sections_of_the_workflows_own_are_its_settings(project):
    assert load(project).config.workflow == {"frozen_lake": {"frozen_lake_size": 4}, "ajet": {"judge": {"concurrency": 3}}}


def test_relative_paths_start_at_the_working_directory(project):
    config = load(project).config
    assert config.rollout.user_workflow == f"{project / 'agents' / 'solver.py'}->Agent"
    assert config.model.path == str(project / "model")


def test_every_key_that_changes_is_named_once_with_what_took_its_place(project):
    text = "\n".join(load(project).notices)
    assert "Ignored: hydra, defaults (" in text
    assert "ajet.rollout.force_disable_toolcalls → astuner.rollout.agentscope_disable_toolcalls" in text
    for dropped in ("checkpoint_base_dir (checkpoints are in the run directory", "rollout.mode (calls are always"):
        assert text.count(dropped) == 1
    assert "interchange_server (the gateway always serves agents over HTTP" in text
    assert "timeline_compare_level has another value (" in text


def test_what_set_sets_is_translated_too(project):
    config = load(project, "frozen_lake.frozen_lake_size=8", "ajet.rollout.force_disable_toolcalls=false").config
    assert config.workflow["frozen_lake"] == {"frozen_lake_size": 8}
    assert not config.rollout.agentscope_disable_toolcalls


def test_a_misspelt_key_is_still_a_mistake_with_its_line(project):
    file = project / "configs" / "lake.yaml"
    file.write_text(YAML.replace("force_disable_toolcalls: true", "force_disable_toolcals: true"))
    found = examine_config(file).problems
    assert [(problem.key, problem.line) for problem in found] == [("astuner.rollout.force_disable_toolcals", 8)]


def test_a_wrong_value_of_a_renamed_key_has_the_line_of_the_file(project):
    file = project / "configs" / "lake.yaml"
    file.write_text(YAML.replace("force_disable_toolcalls: true", "force_disable_toolcalls: 3"))
    found = examine_config(file).problems
    assert [(problem.key, problem.line) for problem in found] == [("astuner.rollout.agentscope_disable_toolcalls", 8)]


def test_a_misspelt_section_on_the_command_line_is_refused(project):
    found = examine_config(project / "configs" / "lake.yaml", ["frozen_lak.size=8"]).problems
    assert [problem.key for problem in found] == ["astuner.frozen_lak"]


@pytest.mark.parametrize(
    ("roots", "claimed"),
    [
        (["ajet"], True),
        (["astune", "hydra"], True),
        (["astuner", "defaults"], True),
        (["astuner"], False),
        (["astuner", "trinity"], False),
        (["trainer", "data", "hydra"], False),
    ],
)
def test_which_files_are_its_own(roots, claimed):
    assert AjetImporter().claims({root: {} for root in roots}) is claimed


def translate(**roots):
    return AjetImporter().translate(roots).roots


def test_a_dataset_needs_no_question_and_may_repeat_rows():
    section = translate(ajet={"task_reader": {"huggingface_dat_repo": {"dataset_path": "x"}}})["astuner"]["task_reader"]
    assert section["huggingface_dat_repo"] == {"dataset_path": "x", "default_query": "Empty", "keep_repeats": True}


def test_sections_of_verl_move_below_it_and_its_logger_is_ours():
    found = translate(ajet={}, trainer={"logger": ["console"], "device": "cpu"}, actor_rollout_ref={"actor": {"x": 1}})
    assert found["verl"] == {"trainer": {"device": "cpu"}, "actor_rollout_ref": {"actor": {"x": 1}}}
    assert found["astuner"]["trainer_common"] == {"logger": ["console"]}


def test_its_own_judge_keeps_its_formula():
    old = "ajet.task_judge.env_service_as_judge->EnvServiceJudge"
    found = translate(ajet={"task_judge": {"judge_protocol": old}})["astuner"]["task_judge"]
    assert found == {"judge_protocol": "ajet.task_judge.env_service_as_judge:EnvServiceJudge"}


def test_a_translation_leaves_the_file_alone():
    values = {"ajet": {"rollout": {"mode": "async"}}}
    AjetImporter().translate(values)
    assert values == {"ajet": {"rollout": {"mode": "async"}}}


def test_paths_that_are_not_there_stay_as_they_are(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert translate(ajet={"model": {"path": "Qwen/Qwen2.5-7B"}})["astuner"] == {"model": {"path": "Qwen/Qwen2.5-7B"}}


def test_a_reader_of_an_example_is_its_code_and_its_tasks_are_played_in_its_service():
    service = {"env_type": "finworld", "env_url": "http://127.0.0.1:8080"}
    found = translate(ajet={"task_reader": {"type": "deep_finance", "deep_finance": {"x": 1}, "env_service": service}})["astuner"]
    assert found["task_reader"]["type"] == "tutorial.example_deep_finance.deep_finance_reader->DeepFinanceReader"
    assert found["task_reader"]["deep_finance"] == {"x": 1}
    assert found["environment"] == {"environment_type": "env_service"}


def test_an_environment_of_the_files_own_stays():
    reader = {"type": "deep_finance", "env_service": {"env_url": "http://127.0.0.1:8080"}}
    found = translate(ajet={"task_reader": reader, "environment": {"environment_type": "no_env"}})["astuner"]
    assert found["environment"] == {"environment_type": "no_env"}
