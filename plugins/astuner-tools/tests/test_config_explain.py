"""`astuner config explain`, with a backbone that is given by its path and one that is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from astuner.cli import exit_code_of

BACKBONE = """
from attrs import evolve

from astuner.episodes.builtin.debug.debug_backbone import DebugBackbone
from astuner.settings.config.alignment import Alignment, Constant, Row


class Acme(DebugBackbone):
    name = "acme"
    traits = evolve(
        DebugBackbone.traits,
        inapplicable={**DebugBackbone.traits.inapplicable, "rollout.max_env_worker": "one at a time"},
        refuses={"rollout.n_vllm_engine": "it starts no servers"},
        alignment=Alignment(
            root="verl",
            rows=(Row("trainer_common.optim.lr", "actor.lr"), Row("rollout.temperature", "sampler.temperature")),
            constants=(Constant("adv", "given", "advantages come from core"),),
            defaults=lambda: {"actor": {"lr": 1e-6, "eps": 1e-8, "api_key": None}},
        ),
    )
"""
CONFIG = """\
astuner:
  backbone: ./acme.py:Acme
  model: {path: org/model}
  rollout: {user_workflow: "./agent.py:Agent", temperature: 0.5, max_env_worker: 3}
  trainer_common: {optim: {lr: 0.1}, total_training_steps: 3}
verl:
  actor: {api_key: sk-very-secret-key}
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    (tmp_path / "acme.py").write_text(BACKBONE)
    (tmp_path / "run.yaml").write_text(CONFIG)
    return tmp_path / "run.yaml"


def lines(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in capsys.readouterr().out.splitlines()]


def test_each_key_has_its_place_and_who_acts_on_it(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["config", "explain", "--conf", str(conf), "--set", "rollout.top_k=5"]) == 0
    found = lines(capsys)
    assert ["trainer_common.optim.lr", "0.1", "run.yaml:5", "./acme.py:Acme: actor.lr"] in found
    assert ["rollout.temperature", "0.5", "run.yaml:4", "core; ./acme.py:Acme: sampler.temperature"] in found
    assert ["rollout.max_env_worker", "3", "run.yaml:4", "nothing: one at a time"] in found
    assert ["rollout.top_k", "5", "--set rollout.top_k", "core"] in found
    assert not any(line[:1] == ["trainer_common.grad_clip"] for line in found)


def test_each_native_value_has_its_source(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exit_code_of(["config", "explain", "--conf", str(conf)])
    found = lines(capsys)
    assert ["actor.lr", "0.1", "trainer_common.optim.lr (run.yaml:5)"] in found
    assert ["actor.eps", "1e-08", "the trainer's default"] in found
    assert ["adv", '"given"', "the backbone: advantages come from core"] in found
    assert ["actor.api_key", '"<redacted>"', "run.yaml:7"] in found


def test_no_secret_is_shown(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exit_code_of(["config", "explain", "--conf", str(conf), "--all", "--json"])
    assert "very-secret" not in capsys.readouterr().out


def test_all_shows_defaults_too(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exit_code_of(["config", "explain", "--conf", str(conf), "--all"])
    assert ["trainer_common.grad_clip", "1.0", "default", "nothing: debug does not train"] in lines(capsys)


def test_json_is_one_document(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exit_code_of(["config", "explain", "--conf", str(conf), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["backbone"] == "./acme.py:Acme"
    assert {"key": "adv", "value": "given", "source": "constant", "because": "advantages come from core"} in document["native"]
    [lr] = [key for key in document["keys"] if key["key"] == "trainer_common.optim.lr"]
    assert (lr["source"], lr["place"], lr["status"], lr["native"]) == ("file", "run.yaml:5", "aligned", ["actor.lr"])


def test_a_refused_key_is_explained_and_ends_with_2(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["config", "explain", "--conf", str(conf), "--set", "rollout.n_vllm_engine=5"]) == 2
    said = capsys.readouterr()
    assert "refused: it starts no servers" in said.out
    assert "astuner.rollout.n_vllm_engine: the backbone './acme.py:Acme' does not act on this key" in said.err


def test_the_engine_that_auto_comes_to_is_explained_too(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = "from astuner.contract.protocols import EngineTraits\n\nclass Own:\n    traits = EngineTraits(honours=HONOURS)\n"
    own = own.replace("HONOURS", "{'*': ('rollout.n_vllm_engine',)}")
    (conf.parent / "acme.py").write_text(f"{BACKBONE}    traits = evolve(traits, default_engines=('./own.py:Own',))\n")
    (conf.parent / "own.py").write_text(own)
    assert exit_code_of(["config", "explain", "--conf", str(conf), "--set", "rollout.n_vllm_engine=5"]) == 0
    assert ["rollout.n_vllm_engine", "5", "--set rollout.n_vllm_engine", "the engine"] in lines(capsys)


def test_another_backbone_is_explained_by_its_name(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf.write_text(CONFIG.partition("verl:")[0])
    exit_code_of(["config", "explain", "--conf", str(conf), "--backbone", "debug"])
    said = capsys.readouterr().out
    assert "The backbone 'debug' has no native configuration" in said
    assert "nothing: debug does not train" in said


def explain_in_json(conf: Path, capsys: pytest.CaptureFixture[str], code: int) -> dict[str, Any]:
    assert exit_code_of(["config", "explain", "--conf", str(conf), "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_problem_has_its_key_and_its_line_in_json(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf.write_text(CONFIG.replace("temperature: 0.5", "temperature: 0.5, n_vllm_engine: 5"))
    (problem,) = explain_in_json(conf, capsys, 2)["problems"]
    assert (problem["key"], problem["line"]) == ("astuner.rollout.n_vllm_engine", 4)
    assert "it starts no servers" in problem["message"]


def test_the_rest_of_a_yaml_with_mistakes_is_explained_in_json(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf.write_text(CONFIG.replace("lr: 0.1", "lr: fast").replace("temperature", "temprature", 1))
    document = explain_in_json(conf, capsys, 2)
    assert [(problem["key"], problem["suggestion"]) for problem in document["problems"]][:2] == [
        ("astuner.rollout.temprature", "temperature"),
        ("astuner.trainer_common.optim.lr", None),
    ]
    assert {key["key"]: key["value"] for key in document["keys"]}["rollout.max_env_worker"] == 3


def test_what_is_not_yaml_is_a_problem_in_json(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf.write_text("astuner: [")
    document = explain_in_json(conf, capsys, 2)
    assert {*document} == {"error", "exit_code", "problems"}
    assert document["problems"][0]["line"] == 1
