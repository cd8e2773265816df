from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness import REPOSITORY
from jsonschema import Draft7Validator

from astuner.contract.errors import ConfigError
from astuner.settings.config.config_file import read_config_file
from astuner.settings.config.loading import load_config
from astuner.settings.config.model import Config
from astuner.settings.config.schema_keys import walk_schema
from astuner.settings.config.structure_errors import FaultsError
from astuner.settings.config.structuring import make_converter
from astuner.settings.config.yaml_lines import read_yaml
from astuner.settings.plugins.catalog import Catalog
from astuner_devkit.distribution import write_distribution
from astuner_tools.config_schema.json_schema import build_schema

VALUES = [None, True, 0, 1, -1, 3, 70000, 0.5, -0.5, 1.5, "", "text", "auto", [], [1], ["a"], [0.5, 0.5], {}, {"a": 1}]


def valid(document: object) -> bool:
    return VALIDATOR.is_valid(document)


def nested(key: str, value: object) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def structures(tree: object) -> bool:
    try:
        CONVERTER.structure(tree, Config)
    except FaultsError:
        return False
    return True


VALIDATOR = Draft7Validator(build_schema(Catalog(), native_roots=("verl", "trinity"), on_broken=print))
CONVERTER = make_converter()
KEYS = [key for key in walk_schema() if not key.endswith(".*")]
SECTIONS = sorted({key.rpartition(".")[0] for key in KEYS} - {""})


def test_it_is_a_json_schema() -> None:
    Draft7Validator.check_schema(VALIDATOR.schema)


def test_an_example_validates() -> None:
    file = REPOSITORY / "astuner-core/tests/config/data/seeds_default.yaml"
    assert [error.message for error in VALIDATOR.iter_errors(read_yaml(file.read_text(), file).values)] == []


# Rules that stand in functions of ours are the loader's alone: a schema may be more lenient there, never stricter.
WRITTEN_OUT = {
    "experiment_name",
    "rollout.max_num_seqs",
    "rollout.players",
    "rollout.top_k",
    "rollout.val_kwargs.top_k",
    "rollout.episode_timeout_s",
    "rollout.llm_timeout_s",
    "task_judge.timeout_s",
    "agent.timeout_s",
    "trainer_common.optim.betas",
}


@pytest.mark.parametrize("key", [*KEYS, *SECTIONS])
def test_schema_and_loader_agree_on_every_value_of_every_key(key: str) -> None:
    accepted = [value for value in VALUES if structures(nested(key, value))]
    assert accepted == [value for value in accepted if valid({"astuner": nested(key, value)})]
    if key not in WRITTEN_OUT:
        assert accepted == [value for value in VALUES if valid({"astuner": nested(key, value)})]


@pytest.mark.parametrize("key", [*KEYS, *SECTIONS])
def test_an_interpolation_may_stand_for_every_value(key: str) -> None:
    assert valid({"astuner": nested(key, "${oc.env:HOME}")})


@pytest.mark.parametrize("key", KEYS)
def test_a_misspelt_key_is_refused_like_by_the_loader(key: str) -> None:
    tree = nested(f"{key}_", 1)
    assert (structures(tree), valid({"astuner": tree})) == (False, False)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"asttuner": {}},
        {"astuner": {}, "ajet": {}},
        {"astuner": []},
        {"astuner": "${oc.env:ALL}"},
        {"astuner": {}, "verl": 1},
        {"astuner": {}, "megatron": {}},
        [],
        None,
    ],
)
def test_roots_are_refused_like_by_the_loader(document: object, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError):
        load_config(file, unused=("model.path", "rollout.user_workflow"))
    assert not valid(document)


@pytest.mark.parametrize("document", [{"astuner": None}, {"ajet": {"seed": 1}}, {"astuner": {}, "verl": {"a": {"b": 1}}}])
def test_roots_are_accepted_like_by_the_loader(document: object, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(document))
    load_config(file, unused=("model.path", "rollout.user_workflow"))
    assert valid(document)


def test_old_spellings_are_accepted_and_name_the_present_one() -> None:
    assert valid({"ajet": {"rollout": {"agentscope_workflow": "a->B", "val_kwargs": {"num_repeat": 2}}}})
    assert not valid({"ajet": {"rollout": {"val_kwargs": {"num_repeat": "two"}}}})
    old = VALIDATOR.schema["definitions"]["astuner"]["properties"]["rollout"]["properties"]["agentscope_workflow"]
    assert (old["deprecated"], old["description"]) == (True, "Older spelling of `rollout.user_workflow`.")


def test_what_is_written_under_a_field_is_its_description() -> None:
    data = VALIDATOR.schema["definitions"]["astuner"]["properties"]["data"]
    assert data["description"] == "Lengths in tokens, the batch size, and which tasks are trained."
    batch = data["properties"]["train_batch_size"]
    assert batch["description"] == "Tasks per training step; each is played `rollout.num_repeat` times."
    assert (batch["default"], batch["minimum"]) == (32, 1)


def test_a_section_of_what_is_not_installed_is_free_and_says_what_installs_it() -> None:
    assert valid({"astuner": {"task_reader": {"env_service": {"any": "x"}}}})
    reader = VALIDATOR.schema["definitions"]["astuner"]["properties"]["task_reader"]
    told = "Options of a reader that is not installed: pip install astuner-env-service"
    assert reader["properties"]["env_service"]["description"] == told


OPTIONS = """\
from typing import Literal, Mapping
from attrs import frozen, field
from attrs.validators import ge

@frozen(kw_only=True)
class Options:
    level: int = field(validator=ge(1))
    \"\"\"How strict.\"\"\"
    api_key: str = "do-not-show"
    mode: Literal["a", "b"] = "a"

class Thing:
    Options = Options

class Plain:
    pass
"""
KINDS = ("readers", "judges", "trackers", "engines", "loggers", "losses", "hooks")


@pytest.fixture
def schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """The schema where distributions are installed that offer `thing` and `plain` of every kind that has options."""

    def made(on_broken: Callable[[str], None] = print, source: str = OPTIONS, *names: str) -> dict[str, Any]:
        for name in names or ("acme",):
            points = {f"astuner.{group}": {"thing": f"{name}:Thing", "plain": f"{name}:Plain"} for group in KINDS}
            write_distribution(tmp_path, name, "1.0", {f"{name}.py": source}, points)
            monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.syspath_prepend(str(tmp_path))
        return build_schema(Catalog.discover(), native_roots=(), on_broken=on_broken)

    return made


PLACES: dict[str, Callable[[object], dict[str, Any]]] = {
    "reader": lambda options: {"task_reader": {"thing": options}},
    "judge": lambda options: {"task_judge": {"thing": options}},
    "tracker": lambda options: {"context_tracker": {"thing": options}},
    "engine": lambda options: {"rollout": {"thing": options}},
    "loss": lambda options: {"trainer_common": {"algorithm": {"thing": options}}},
    "hook": lambda options: {"plugins": {"options": {"thing": options}}},
    "logger": lambda options: {"trainer_common": {"logger": ["console", {"thing": options}]}},
    "one logger": lambda options: {"trainer_common": {"logger": {"thing": options}}},
    "one of several judges": lambda options: {"task_judge": {"judges": [{"judge": "thing", "options": options}]}},
}


@pytest.mark.parametrize("place", PLACES)
def test_the_options_of_an_installed_component_are_checked(place: str, schema: Callable[..., dict[str, Any]]) -> None:
    validator = Draft7Validator(schema())
    wrong: list[dict[str, Any]] = [{"level": 0}, {"level": "2"}, {"level": 1, "leve": 1}, {"level": 1, "mode": "c"}]
    assert validator.is_valid({"astuner": PLACES[place]({"level": 1, "mode": "${oc.env:MODE}"})})
    assert [options for options in wrong if validator.is_valid({"astuner": PLACES[place](options)})] == []


@pytest.mark.parametrize("place", PLACES)
def test_a_component_without_options_takes_none(place: str, schema: Callable[..., dict[str, Any]]) -> None:
    validator = Draft7Validator(schema())
    text = json.dumps(PLACES[place]({})).replace("thing", "plain")
    assert validator.is_valid({"astuner": json.loads(text)})
    assert not validator.is_valid({"astuner": json.loads(text.replace("{}", '{"a": 1}'))})


def test_installed_names_are_offered_and_others_are_not_forbidden(schema: Callable[..., dict[str, Any]]) -> None:
    made = schema()
    judge = made["definitions"]["astuner"]["properties"]["task_judge"]["properties"]["judge_type"]
    assert {"customized_protocol", "thing"} <= set(judge["anyOf"][0]["enum"])
    assert Draft7Validator(made).is_valid({"astuner": {"task_judge": {"judge_type": "./mine.py:Mine"}}})


def test_a_component_that_cannot_be_imported_is_named_and_left_free(schema: Callable[..., dict[str, Any]]) -> None:
    heard: list[str] = []
    made = schema(heard.append, "raise ImportError('no such luck')")
    assert any("judge 'thing' from acme 1.0" in text and "no such luck" in text for text in heard)
    assert Draft7Validator(made).is_valid({"astuner": {"task_judge": {"thing": {"any": 1}}}})


def test_options_that_cannot_be_described_are_named_and_left_free(schema: Callable[..., dict[str, Any]]) -> None:
    heard: list[str] = []
    source = (
        "from attrs import frozen\nclass Thing:\n    @frozen\n    class Options:\n        a: 'Missing' = 1\nclass Plain: pass\n"
    )
    made = schema(heard.append, source)
    assert any("judge 'thing' from acme 1.0" in text and "Missing" in text for text in heard)
    assert Draft7Validator(made).is_valid({"astuner": {"task_judge": {"thing": {"any": 1}}}})


def test_two_components_of_one_name_are_offered_by_their_distributions(schema: Callable[..., dict[str, Any]]) -> None:
    made = schema(print, OPTIONS, "acme", "bolt")
    judge = made["definitions"]["astuner"]["properties"]["task_judge"]["properties"]["judge_type"]
    assert {"acme/thing", "bolt/thing"} <= set(judge["anyOf"][0]["enum"])
    assert "thing" not in judge["anyOf"][0]["enum"]
    assert Draft7Validator(made).is_valid({"astuner": {"task_judge": {"thing": {"any": 1}}}})


def test_the_default_of_a_secret_is_not_written(schema: Callable[..., dict[str, Any]]) -> None:
    assert "do-not-show" not in json.dumps(schema())


def test_what_loads_validates(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "ajet:\n  model: {path: org/name, target_modules: [q, v], lora_rank: 4}\n"
        "  rollout: {agentscope_workflow: a->B, seed: '${ajet.seed}', scripted: }\n"
        "  data:\n  trainer_common: {logger: {console: }, optim: {lr: 1e-5, betas: [0.9, 1e-3]}}\n"
        "  services: {web: {command: [serve, '1'], env: {A: b}, ready: {port: 80}}}\n"
        "  task_judge: {judge_type: customized_protocal, ./j.py:J: {deep: {er: 1}}}\n"
        "  experiment_name: '${oc.env:USER,me}-${.seed}'\n"
    )
    load_config(file)
    assert valid(read_config_file(file).roots)
