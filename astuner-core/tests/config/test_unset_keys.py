"""`--set key=null`: the key has its default again, unless null is a value of it. A YAML is read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import frozen

from astuner.contract.errors import ConfigError
from astuner.settings.config.structuring import structure_options
from astuner.settings.planning.plan import plan_run
from astuner_devkit.project import write_project


def test_null_takes_back_what_the_yaml_says(load):
    loaded = load("    num_repeat: 7\n", ["rollout.num_repeat=null"])
    assert loaded.config.rollout.num_repeat == 4
    assert "rollout.num_repeat" not in loaded.user_keys


def test_null_stays_a_value_where_it_is_one(load):
    loaded = load("", ["rollout.episode_timeout_s=null"])
    assert loaded.config.rollout.episode_timeout_s is None
    assert "rollout.episode_timeout_s" in loaded.user_keys


def test_null_in_a_yaml_is_an_error_where_it_is_no_value(problem):
    assert problem("    num_repeat:\n").message == "expected a whole number, got nothing."


def test_a_model_that_is_nothing_is_none_in_a_yaml_too(load):
    text = "astuner: {model: {path: null}, rollout: {user_workflow: a->B}}\n"
    assert load(text).config.model.path == ""


def test_the_name_of_an_experiment_is_that_of_the_file_again(load):
    assert load("  experiment_name: mine\n", ["experiment_name=null"]).config.experiment_name == "run"


@frozen(kw_only=True)
class Options:
    count: int = 3
    file: str | None = "a"
    required: str


@pytest.mark.parametrize("values", [{"count": None, "required": "x"}])
def test_options_of_a_component_are_taken_back_too(values):
    made = structure_options(Options, values, key="astuner.task_judge.acme", locate=lambda _: (Path("--set x"), 0))
    assert made == Options(required="x")
    with pytest.raises(ConfigError, match="expected a whole number, got nothing"):
        structure_options(Options, values, key="astuner.task_judge.acme", locate=lambda _: (Path("tune.yaml"), 3))


def test_a_required_option_that_is_taken_back_is_missing():
    with pytest.raises(ConfigError, match="this key is required"):
        structure_options(Options, {"required": None}, key="astuner.a.b", locate=lambda _: (Path("--set x"), 0))


def test_an_option_of_a_script_is_taken_back_in_a_whole_plan(tmp_path):
    conf = write_project(tmp_path, settings={"rollout": {"scripted": {"delay_s": 2.0}}})
    assert plan_run(conf, ["rollout.scripted.delay_s=null"]).recipe.engine.options.delay_s == 0.0
