"""What a configuration takes from the environment is not written out, and an isolated one takes nothing."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.loading import LoadedConfig, examine_config, load_config
from astuner.settings.config.show import sign_variables, to_yaml

Load = Callable[..., LoadedConfig]


def test_a_run_is_called_by_the_variable_that_its_name_takes_a_value_from(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = []
    for value in ("tokvalue-abcdef123456", "tokvalue-abcdef123456", "another-99"):
        monkeypatch.setenv("MY_RUN", value)
        loaded = load("  experiment_name: run-${oc.env:MY_RUN}\n  project_name: '${ oc.env : MY_RUN }'\n")
        names.append(loaded.config.experiment_name)
        assert loaded.config.experiment_dir == str(tmp_path / "launcher_record" / names[-1])
        assert loaded.config.project_name.startswith("MY_RUN-")
        assert f"experiment_name holds the value of an environment variable, and is '{names[-1]}'" in loaded.notices[1]
        assert "tokvalue" not in to_yaml(loaded)
        (tmp_path / "again.yaml").write_text(to_yaml(loaded))
        assert load_config(tmp_path / "again.yaml").config.experiment_dir == loaded.config.experiment_dir
    assert names[0] == names[1] != names[2]
    assert all(re.fullmatch("run-MY_RUN-[0-9a-f]{4}", name) for name in names)


@pytest.mark.parametrize("value", ["day_2", "baseline", "20261129"])
def test_a_name_of_ordinary_words_and_numbers_stays(load: Load, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MY_RUN", value)
    loaded = load("  experiment_name: ${oc.env:MY_RUN}\n")
    assert loaded.config.experiment_dir.endswith(f"/launcher_record/{value}")
    assert yaml.safe_load(to_yaml(loaded))["astuner"]["experiment_dir"].endswith("/launcher_record/${oc.env:MY_RUN}")


def test_a_number_and_a_section_are_written_as_they_were_given(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PIN", "4815162342")
    monkeypatch.setenv("MY_STEPS", "40")
    monkeypatch.setenv("MY_SECTION", "{hidden: [1, two]}")
    loaded = load(
        "  seed: ${oc.decode:${oc.env:MY_PIN}}\n  trainer_common: {total_training_steps: '${oc.decode:${oc.env:MY_STEPS}}'}\n"
        "  task_judge: {judge_protocol: j->J, j: '${oc.decode:${oc.env:MY_SECTION}}'}\n"
    )
    assert (loaded.config.seed, loaded.config.task_judge.sections["j"]) == (4815162342, {"hidden": [1, "two"]})
    shown = yaml.safe_load(to_yaml(loaded))["astuner"]
    assert shown["seed"] == "${oc.decode:${oc.env:MY_PIN}}"
    assert shown["task_judge"]["j"] == "${oc.decode:${oc.env:MY_SECTION}}"
    # By chance such a number is found anywhere; who counts the steps of a stored run reads it.
    assert shown["trainer_common"]["total_training_steps"] == 40
    assert set(sign_variables(loaded)) == {"astuner.seed", "astuner.task_judge.j"}


@pytest.mark.parametrize("value", ["abc", "some-word", "/some/path", "123456"])
def test_what_occurs_by_chance_is_replaced_at_its_key_alone(load: Load, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MY_VALUE", value)
    loaded = load("  task_judge: {judge_protocol: j->J, j: {a: '${oc.env:MY_VALUE}'}}\n")
    assert yaml.safe_load(to_yaml(loaded))["astuner"]["task_judge"]["j"] == {"a": "${oc.env:MY_VALUE}"}
    assert loaded.secrets.hide(f"an answer: {value}.") == f"an answer: {value}."


def test_an_isolated_configuration_looks_at_no_variable_and_no_path(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(
        "  seed: ${oc.decode:${oc.env:MY_PIN}}\n  experiment_name: ${oc.env:MY_RUN,first}\n  project_name: ${.experiment_name}\n"
        "  services: {web: {command: x, cwd: /elsewhere}}\n"
        "  rollout: {user_workflow: ./a.py:A, temperature: '${oc.env:MY_RUN}',"
        " auxiliary_models: {judge: {model: m, base_url: 'http://x', api_key_env: MY_RUN}}}\n"
        "  data: {train_batch_size: 3}\n  model: {path: '${astuner.services.web.cwd}/model'}\n",
    )
    text = file.read_text().replace("  model:\n    path: org/name\n  rollout:\n    user_workflow: agent->Agent\n", "")
    file.write_text(text)
    (file.parent / ".env").write_text("MY_RUN=from-dotenv\n")

    def refuse(*_: object) -> bool:
        raise AssertionError("it was looked at")

    class Unread(dict[str, str]):
        get = __getitem__ = refuse  # type: ignore[assignment]

    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", Unread())
        for name in ("isdir", "exists", "isfile"):
            patch.setattr(os.path, name, refuse)
        patch.setattr(Path, "is_dir", refuse)
        loaded = examine_config(file, names_of=lambda _: (), isolated=True)
    assert loaded.problems == ()
    assert loaded.from_environment == {
        "astuner.seed": "${oc.decode:${oc.env:MY_PIN}}",
        "astuner.experiment_name": "${oc.env:MY_RUN,first}",
        "astuner.project_name": "${.experiment_name}",
        "astuner.rollout.temperature": "${oc.env:MY_RUN}",
    }
    assert loaded.config.model.path == "/elsewhere/model"
    assert {"seed", "rollout.temperature", "data.train_batch_size"} <= loaded.user_keys


def test_a_directory_is_not_named_after_a_secret(problem: Callable[..., Problem], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "tokvalue-abcdef123456")
    found = problem("  experiment_dir: runs/${oc.env:MY_TOKEN}\n")
    assert found.key == "astuner.experiment_dir"
    assert "everyone reads the names of directories" in found.message


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_directory_that_is_not_named_in_utf8_is_refused_in_one_line(write: Callable[..., Path], tmp_path: Path) -> None:
    home = os.fsencode(tmp_path) + b"/p\xff"
    os.mkdir(home)
    os.rename(write(), home + b"/run.yaml")
    with pytest.raises(
        ConfigError, match=r"^run\.yaml: a directory of '.*p\\udcff/run\.yaml' or of the run is not named in UTF-8"
    ):
        load_config(Path(os.fsdecode(home + b"/run.yaml")))
