"""Stages of one YAML: how they are merged, named and ordered, and where the errors in them are said to be."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import astuner
from astuner.contract.errors import ConfigError, SeveralStages, UsageError
from astuner.runs.store.checkpoints import record_validation
from astuner.runs.store.directory import RunDirectory
from astuner.settings.config.loading import LoadedConfig, load_config
from astuner_devkit.project import write_project
from astuner_tools.stages.planned_stage import plan_stages
from astuner_tools.stages.sequence import find_end

Write = Callable[..., Path]

TWO: list[Mapping[str, Any]] = [
    {"name": "warm", "trainer_common": {"total_training_steps": 2}},
    {"name": "rl", "rollout": {"num_repeat": 5}, "seed": 7},
]
JUDGE = "astuner_devkit.judges:ExactAnswer"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(stages: Any, **settings: Any) -> Path:
        conf = write_project(tmp_path, JUDGE, settings=settings)
        document = yaml.safe_load(conf.read_text())
        document["astuner"]["stages"] = stages
        conf.write_text(yaml.safe_dump(document, sort_keys=False))
        return conf

    return write


def load(conf: Path, stage: str, *overrides: str) -> LoadedConfig:
    return load_config(conf, [f"stage={stage}", *overrides], unused=("model.path",))


def find_line(conf: Path, text: str) -> int:
    return next(number for number, line in enumerate(conf.read_text().splitlines(), 1) if text in line)


def test_a_stage_is_merged_over_the_rest(write: Write):
    conf = write(TWO, seed=3, rollout={"temperature": 0.5, "num_repeat": 2})
    warm, rl = load(conf, "warm").config, load(conf, "rl").config
    assert (warm.seed, warm.rollout.num_repeat, warm.rollout.temperature) == (3, 2, 0.5)
    assert (rl.seed, rl.rollout.num_repeat, rl.rollout.temperature) == (7, 5, 0.5)
    assert (warm.trainer_common.total_training_steps, rl.trainer_common.total_training_steps) == (2, None)


def test_the_older_spelling_of_a_key_in_the_file_gives_way_to_the_stage(write: Write):
    conf = write([{"name": "a", "trainer_common": {"val_pass_n": 5}}], rollout={"val_kwargs": {"num_repeat": 3}})
    assert load(conf, "a").config.trainer_common.val_pass_n == 5


def test_the_command_line_sets_a_key_of_all_stages(write: Write):
    conf = write(TWO)
    assert [load(conf, name, "seed=9").config.seed for name in ("warm", "rl")] == [9, 9]


def test_each_stage_has_a_run_of_its_own(write: Write):
    conf = write(TWO)
    names = [load(conf, name, "experiment_name=mine").config.experiment_name for name in ("warm", "rl")]
    places = [Path(load(conf, name).config.experiment_dir).name for name in ("warm", "rl")]
    assert (names, places) == (["mine.1-warm", "mine.2-rl"], ["project.1-warm", "project.2-rl"])


def test_a_stage_begins_where_the_one_before_ends(write: Write):
    conf = write([*TWO, {"name": "other", "model": {"path": "./model"}}])
    ends = str(conf.parent / "launcher_record" / "project.1-warm" / "model")
    assert load(conf, "warm").config.model.path == str(conf.parent / "model")
    assert load(conf, "rl").config.model.path == ends
    assert load(conf, "other").config.model.path == str(conf.parent / "model")


def test_a_directory_that_is_chosen_automatically_is_found_too(write: Write, monkeypatch: pytest.MonkeyPatch):
    conf = write(TWO)
    monkeypatch.chdir(conf.parent)
    loaded = load(conf, "rl", "experiment_dir=auto", "experiment_name=mine")
    assert loaded.config.experiment_dir == str(conf.parent / "launcher_record" / "mine.2-rl")
    assert loaded.config.model.path == str(conf.parent / "launcher_record" / "mine.1-warm" / "model")


def test_the_run_says_which_stage_it_is(write: Write):
    assert load(write(TWO), "rl").stage == {"name": "rl", "number": 2, "of": 2, "experiment": "project"}


def test_what_is_about_one_run_asks_for_a_stage(write: Write):
    with pytest.raises(SeveralStages, match="--set stage=warm, --set stage=rl"):
        load_config(write(TWO))


@pytest.mark.parametrize(
    ("stages", "key", "message"),
    [
        (3, "astuner.stages", "expected a list of stages"),
        ([], "astuner.stages", "expected a list of stages"),
        (["warm"], "astuner.stages[0]", "expected a section"),
        ([{"seed": 1}], "astuner.stages[0].name", "needs a name"),
        ([{"name": 1}], "astuner.stages[0].name", "expected text"),
        ([{"name": "a/b"}], "astuner.stages[0].name", "must not contain /"),
        ([{"name": "a"}, {"name": "a"}], "astuner.stages[1].name", "has the name 'a' too"),
        ([{"name": "a", "stages": []}], "astuner.stages[0].stages", "belongs to the whole file"),
        ([{"name": "a", "experiment_name": "b"}], "astuner.stages[0].experiment_name", "belongs to the whole file"),
    ],
)
def test_stages_that_cannot_be_are_refused_by_their_place(write: Write, stages: Any, key: str, message: str):
    with pytest.raises(ConfigError, match=message) as raised:
        load_config(write(stages))
    assert [problem.key for problem in raised.value.problems] == [key]


def test_a_stage_that_is_misspelt_is_named(write: Write):
    with pytest.raises(ConfigError, match=r"no stage 'warn'.*Did you mean 'warm'"):
        load(write(TWO), "warn")


def test_a_file_without_stages_has_none_to_choose(tmp_path: Path):
    with pytest.raises(UsageError, match="has no stages"):
        load_config(write_project(tmp_path, JUDGE), ["stage=rl"])


def test_all_that_is_wrong_in_all_stages_is_said_at_once_by_its_place(write: Write, cli: Any):
    conf = write(
        [
            {"name": "a", "rollout": {"num_repeats": 2}},
            {"name": "b", "trainer_common": {"algorithm": {"adv_estimator": "grppo"}}},
        ],
        sead=1,
    )
    checked = cli("config", "validate", "--conf", str(conf), "--json")
    assert checked.code == 2
    problems = {problem["key"]: problem for problem in json.loads(checked.out)["problems"]}
    assert set(problems) == {
        "astuner.sead",
        "astuner.stages[0].rollout.num_repeats",
        "astuner.stages[1].trainer_common.algorithm.adv_estimator",
    }
    misspelt = problems["astuner.stages[0].rollout.num_repeats"]
    assert (misspelt["suggestion"], misspelt["line"]) == ("num_repeat", find_line(conf, "num_repeats"))


def test_nothing_starts_if_a_later_stage_is_wrong(write: Write):
    conf = write([TWO[0], {"name": "rl", "task_reader": {"dataset_file": {"training": {"file_path": "nowhere.jsonl"}}}}])
    with pytest.raises(ConfigError, match=r"astuner.stages\[1\].task_reader.dataset_file.training.file_path"):
        astuner.run(conf)
    assert not (conf.parent / "launcher_record").exists()


def test_a_look_plays_every_stage_with_the_model_of_the_file(write: Write, capfd: pytest.CaptureFixture[str]):
    last = astuner.run(write(TWO))
    assert last.path.name == "project.2-rl.debug"
    facts = [json.loads(path.read_text())["stage"]["name"] for path in sorted(last.path.parent.glob("*/run.json"))]
    said = capfd.readouterr().err
    assert facts == ["warm", "rl"]
    assert said.index("stage 1 of 2, warm") < said.index("stage 2 of 2, rl")


def test_after_a_stage_without_weights_of_its_own_the_weights_are_those_before_it(write: Write):
    pytest.importorskip("astuner_local")
    conf = write(
        [{"name": "a"}, {"name": "look", "backbone": "debug"}, {"name": "c"}], backbone="local", rollout={"num_repeat": 2}
    )
    with pytest.raises(SeveralStages) as several:
        load_config(conf)
    stages = plan_stages(several.value, conf, (), None)
    ends = str(conf.parent / "launcher_record" / "project.1-a" / "model")
    assert [stage.begins for stage in stages] == [str(conf.parent / "model"), ends, ends]
    assert [load_config(conf, one.overrides, unused=("model.path",)).config.model.path for one in stages][2] == ends


def test_a_step_to_resume_from_belongs_to_one_stage(write: Write):
    with pytest.raises(UsageError, match="--resume-from 2: a step belongs to one stage"):
        astuner.run(write(TWO), resume_from=2)


@pytest.mark.parametrize(
    ("stage", "key", "message"),
    [
        ({"demonstrations": "nowhere.jsonl"}, "demonstrations", "there is no such file"),
        ({"demonstrations": {"file": "demos.jsonl", "epoch": 2}}, "demonstrations.epoch", "there is no such key"),
        ({"demonstrations": {"file": "demos.jsonl", "epochs": 0}}, "demonstrations.epochs", "must be >= 1"),
        ({"demonstrations": {}}, "demonstrations.file", "is required"),
        ({"demonstrations": "demos.jsonl"}, "demonstrations", "'debug' does not train on demonstrations"),
        (
            {"demonstrations": "demos.jsonl", "trainer_common": {"optim": {"lr": 1.0}}},
            "trainer_common.optim",
            "the rate is demonstrations.lr",
        ),
    ],
)
def test_demonstrations_that_cannot_be_learnt_are_refused(write: Write, stage: Mapping[str, Any], key: str, message: str):
    conf = write([{"name": "a", **stage}, TWO[1]])
    said = {"messages": [{"role": "user", "content": "2?"}, {"role": "assistant", "content": "2"}]}
    (conf.parent / "demos.jsonl").write_text(json.dumps(said) + "\n")
    with pytest.raises(ConfigError, match=message) as raised:
        astuner.run(conf)
    assert [problem.key for problem in raised.value.problems] == [f"astuner.stages[0].{key}"]


def test_a_new_model_is_the_beginning_of_the_first_stage(write: Write):
    conf = write([TWO[0], {"name": "b", "demonstrations": {"file": "demos.jsonl", "tiny": True}}])
    (conf.parent / "demos.jsonl").write_text("{}\n")
    with pytest.raises(ConfigError, match="only be the beginning of the first stage"):
        astuner.run(conf)


def test_a_row_that_is_wrong_is_named_before_anything_is_trained(write: Write):
    pytest.importorskip("astuner_local")
    conf = write([{"name": "a", "demonstrations": "demos.jsonl"}], backbone="local", rollout={"num_repeat": 2})
    (conf.parent / "demos.jsonl").write_text('{"messages": 3}\n')
    with pytest.raises(ConfigError, match=r"demos.jsonl:1"):
        astuner.run(conf)


def test_the_whole_configuration_is_shown_of_each_stage(write: Write, cli: Any):
    conf = write(TWO)
    shown = json.loads(cli("config", "show", "--conf", str(conf), "--json").out)["stages"]
    assert {name: one["astuner"]["seed"] for name, one in shown.items()} == {"warm": 42, "rl": 7}
    text = cli("config", "show", "--conf", str(conf)).out
    assert list(yaml.safe_load_all(text)) == list(shown.values())


def test_the_dry_run_estimates_each_stage(write: Write, cli: Any):
    said = cli("run", "--conf", str(write(TWO)), "--dry-run").out
    assert said.index("stage 1 of 2, warm") < said.index("project.1-warm") < said.index("stage 2 of 2, rl")


def test_an_editor_completes_stages():
    jsonschema = pytest.importorskip("jsonschema")
    from astuner_tools.config_schema.json_schema import build_schema_text

    schema = json.loads(build_schema_text(lambda _: None))

    def count_errors(stage: Mapping[str, Any]) -> int:
        return len(list(jsonschema.Draft7Validator(schema).iter_errors({"astuner": {"stages": [stage]}})))

    assert count_errors({"name": "a", "rollout": {"num_repeat": 2}, "demonstrations": {"file": "x"}}) == 0
    assert count_errors({"name": "a", "demonstrations": "x.jsonl"}) == 0
    assert count_errors({"name": "a", "rollout": {"num_repeats": 2}}) == 1
    assert count_errors({"rollout": {"num_repeat": 2}}) == 1
    assert count_errors({"name": "a", "experiment_name": "b"}) == 1


@pytest.mark.parametrize(
    ("values", "keeps_best", "end"),
    [
        ({}, True, "step_3"),
        ({1: 0.5, 2: 0.9, 3: 0.7}, True, "step_2"),
        ({1: 0.5, 2: 0.9, 3: 0.7}, False, "step_3"),
        ({1: 0.0, 2: 0.0, 3: 0.0}, True, "step_3"),
        ({1: 0.5}, True, "step_1"),
    ],
)
def test_a_stage_ends_with_its_best_checkpoint_or_else_its_last(
    tmp_path: Path, values: Mapping[int, float], keeps_best: bool, end: str
):
    directory = RunDirectory(tmp_path / "run")
    directory.open()
    for step in (1, 2, 3):
        directory.checkpoint(step).mkdir()
    for step, value in values.items():
        record_validation(directory, step, "val/reward/mean", value)
    assert find_end(directory, keeps_best=keeps_best).name == end
    directory.close()
