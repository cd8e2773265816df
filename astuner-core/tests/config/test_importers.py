"""A file that is written for another trainer is translated by the importer that claims it, and each key is answered."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen

from astuner.contract.errors import ConfigError
from astuner.settings.config.importers import Answer, Translation, format_notices
from astuner.settings.config.loading import examine_config, load_config

YAML = "other:\n  heat: {temp: 0.5}\n  gone: 1\nhydra: 1\n"


class Other:
    """Writes `other.heat.temp` for `rollout.temperature`."""

    def claims(self, values):
        return "other" in values

    def translate(self, values, *, file=None):
        tree = values["other"] if file is None else values["astuner"]
        heat = tree.get("heat")
        roots = {"astuner": {key: value for key, value in tree.items() if key not in ("heat", "gone")}}
        if heat:
            roots["astuner"]["rollout"] = {"temperature": heat["temp"]}
        root = "other" if file is None else "astuner"
        return Translation(
            roots=roots,
            answers=(
                Answer(key=f"{root}.heat.temp", kind="translated", keys=("astuner.rollout.temperature",)),
                Answer(key="hydra", kind="ignored", reason="no hydra here"),
                Answer(key=f"{root}.gone", kind="dropped", reason="nothing took its place"),
            ),
        )


class Broken(Other):
    """Fails."""

    def translate(self, values, *, file=None):
        raise KeyError("temp")


@frozen
class Point:
    """An entry point."""

    target: Any
    name: str = "other"
    dist: Any = None

    def load(self):
        return self.target


@pytest.fixture
def conf(tmp_path, importers):
    importers.append(Point(Other))
    path = tmp_path / "tune.yaml"
    path.write_text(YAML)
    return path


def examine(conf, *overrides):
    return examine_config(conf, overrides)


def test_its_keys_are_read_as_ours_and_answered(conf):
    loaded = examine(conf)
    assert loaded.config.rollout.temperature == 0.5
    assert loaded.user_keys == {"rollout.temperature"}
    assert list(loaded.notices) == [
        "Read as a configuration of 'other': other.heat.temp → astuner.rollout.temperature.",
        "Ignored: hydra (no hydra here).",
        "Without effect here: other.gone (nothing took its place).",
    ]


def test_a_wrong_value_has_the_line_on_which_it_is_written(conf):
    conf.write_text(YAML.replace("0.5", "hot"))
    [problem] = [problem for problem in examine(conf).problems if problem.key == "astuner.rollout.temperature"]
    assert problem.line == 2


def test_what_the_command_line_sets_is_translated(conf):
    assert examine(conf, "heat.temp=0.25").config.rollout.temperature == 0.25


def test_a_file_that_no_importer_claims_is_read_as_it_is(conf):
    conf.write_text("astuner:\n  rollout: {temperature: 0.75}\n")
    loaded = examine(conf)
    assert (loaded.config.rollout.temperature, loaded.notices) == (0.75, ())


def test_an_importer_that_fails_is_named(conf, importers):
    importers[:] = [Point(Broken)]
    with pytest.raises(ConfigError, match="importer 'other' could not read it: KeyError: 'temp'"):
        load_config(conf)


def test_what_is_ignored_without_a_reason_has_no_brackets() -> None:
    answers = [Answer(key="a", kind="ignored"), Answer(key="b", kind="dropped"), Answer(key="c", kind="ignored")]
    assert format_notices("acme", answers) == ["Ignored: a, c.", "Without effect here: b."]
    named = [Answer(key="a", kind="ignored", reason="why")]
    assert format_notices("acme", named) == ["Ignored: a (why)."]
