from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from astuner.shared.install_hints import install_command
from astuner_devkit.project import write_project

Doctor = Callable[..., "subprocess.CompletedProcess[str]"]
Rows = Callable[..., "dict[tuple[str, str], dict[str, str]]"]
Install = Callable[..., None]

SECRET = "correct-horse-battery-staple"
BACKBONE = "class B:\n    name = 'acme'\n    honours = ('*',)\n    inapplicable = {}\n"
SETTLES = """
from attrs import evolve

from astuner.contract.protocols import SettledValue
from astuner.episodes.builtin.debug.debug_backbone import DebugBackbone


class B(DebugBackbone):
    name = "acme"
    traits = evolve(DebugBackbone.traits, settles_values=True)

    @classmethod
    def settle_values(cls, run_info):
        return [SettledValue(key="acme.lanes", value=4, because="two for each of 2 cores")]
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def conf(written: Path, tmp_path: Path) -> Path:
    """A project of the test's own; the tokenizer is made once."""
    (tmp_path / "model").symlink_to(written.parent / "model")
    return write_project(tmp_path, settings={"rollout": {"num_repeat": 2}})


def change(conf: Path, old: str, new: str) -> None:
    text = conf.read_text()
    assert old in text
    conf.write_text(text.replace(old, new))


def test_a_sound_project_is_valid_and_its_backbone_can_run_it(doctor: Doctor, rows: Rows, conf: Path) -> None:
    found = rows("--conf", conf)
    assert found["configuration", "project.yaml"]["detail"] == "valid"
    assert found["backbones", "debug (chosen)"]["detail"] == "can run this configuration"
    assert doctor("--conf", conf).returncode == 0


def test_every_problem_is_listed_with_its_line(doctor: Doctor, rows: Rows, conf: Path) -> None:
    change(conf, "backbone:", "bakcbone:")
    change(conf, "num_repeat: 2", "num_repeat: many")
    found = rows("--conf", conf)
    assert "Did you mean 'backbone'?" in found["configuration", "astuner.bakcbone"]["detail"]
    assert f"{conf}:" in found["configuration", "astuner.rollout.num_repeat"]["detail"]
    assert doctor("--conf", conf).returncode == 1


def test_what_the_users_code_prints_is_not_in_the_json_document(rows: Rows, conf: Path) -> None:
    (conf.parent / "agent.py").write_text("print('hello')\nasync def Agent(task, tuner): ...\n")
    change(conf, "user_workflow: astuner_devkit.workflows:OneTurn", "user_workflow: ./agent.py:Agent")
    assert rows("--conf", conf)["configuration", "project.yaml"]["detail"] == "valid"


def test_values_that_a_backbone_settles_are_rows_of_a_valid_configuration(rows: Rows, install: Install, conf: Path) -> None:
    install("acme-backbone", files={"acme_backbone.py": SETTLES}, entry_points={"astuner.backbones": {"acme": "acme_backbone:B"}})
    change(conf, "backbone: debug", "backbone: acme")
    row = rows("--conf", conf)["configuration", "acme.lanes"]
    assert (row["status"], row["detail"]) == ("ok", "4 (two for each of 2 cores)")
    change(conf, "num_repeat: 2", "num_repeat: many")
    assert ("configuration", "acme.lanes") not in rows("--conf", conf)


def test_a_problem_of_every_backbone_is_told_once(rows: Rows, conf: Path) -> None:
    change(conf, "user_workflow: astuner_devkit.workflows:OneTurn", "user_workflow: astuner_devkit.workflows:TwoTurns")
    found = rows("--conf", conf)
    assert found["configuration", "astuner.rollout.user_workflow"]["status"] == "broken"
    assert found["backbones", "debug (chosen)"]["detail"] == "the configuration has problems that are listed above"


def test_what_only_one_backbone_stumbles_over_is_its_own(rows: Rows, install: Install, conf: Path) -> None:
    install(
        "acme-backbone", files={"acme_backbone.py": BACKBONE}, entry_points={"astuner.backbones": {"acme": "acme_backbone:B"}}
    )
    change(conf, "num_repeat: 2", "num_repeat: 1")
    found = rows("--conf", conf)
    assert found["configuration", "project.yaml"]["detail"] == "valid"
    assert "with one episode per task" in found["backbones", "acme"]["detail"]


def test_a_configuration_for_no_other_backbone_can_still_be_run_by_debug(doctor: Doctor, rows: Rows, conf: Path) -> None:
    change(conf, "num_repeat: 2", "num_repeat: 1")
    change(conf, "backbone: debug", "backbone: trinity")
    found = rows("--conf", conf)
    assert found["backbones", "debug"]["detail"] == "can run this configuration"
    assert doctor("--conf", conf).returncode == 1


def test_a_backbone_that_is_not_installed_names_the_one_command(rows: Rows, conf: Path) -> None:
    row = rows("--conf", conf)["backbones", "verl"]
    assert (row["status"], row["detail"], row["remedy"]) == ("missing", "not installed", install_command("astuner-verl"))


def test_the_chosen_backbone_that_is_not_installed_is_broken(doctor: Doctor, rows: Rows, conf: Path) -> None:
    change(conf, "backbone: debug", "backbone: trinity")
    row = rows("--conf", conf)["backbones", "trinity (chosen)"]
    assert (row["status"], row["remedy"]) == ("broken", install_command("astuner-trinity"))
    assert doctor("--conf", conf).returncode == 1


def test_an_installed_backbone_says_which_key_it_refuses(rows: Rows, install: Install, conf: Path) -> None:
    source = (
        "from astuner.contract.protocols import BackboneTraits\n"
        "class B:\n    traits = BackboneTraits(honours=('*',), refuses={'seed': 'it has its own'})\n"
    )
    install("acme-backbone", files={"acme_backbone.py": source}, entry_points={"astuner.backbones": {"acme": "acme_backbone:B"}})
    conf.write_text(conf.read_text() + "  seed: 7\n")
    row = rows("--conf", conf)["backbones", "acme"]
    assert row["status"] == "warning"
    assert "astuner.seed" in row["detail"]


def test_an_installed_backbone_whose_engine_is_missing_names_the_command(rows: Rows, install: Install, conf: Path) -> None:
    install("astuner-verl", requires=["verl>=0.9"], entry_points={"astuner.backbones": {"verl": "astuner_verl:B"}})
    assert (
        f"needs verl>=0.9, which is not installed: {install_command('astuner-verl')}"
        in rows("--conf", conf)["backbones", "verl"]["detail"]
    )


def test_debug_without_an_engine_says_which_package_brings_one(rows: Rows, install: Install, conf: Path) -> None:
    install("astuner-local", requires=["acme-absent"], entry_points={"astuner.engines": {"local": "astuner_local:E"}})
    change(conf, "name: scripted", "name: auto")
    assert install_command("astuner-local") in rows("--conf", conf)["backbones", "debug (chosen)"]["detail"]


def test_a_value_of_the_dotenv_is_named_and_never_shown(doctor: Doctor, rows: Rows, conf: Path) -> None:
    (conf.parent / ".env").write_text(f"OPENAI_API_KEY=sk-{SECRET}\nACME_STAMP={SECRET}\n")
    conf.write_text(conf.read_text() + "  seed: ${oc.env:ACME_STAMP}\n")
    found = rows("--conf", conf)
    assert found["keys", "OPENAI_API_KEY"]["detail"] == "set in .env"
    assert found["keys", "ACME_STAMP"]["detail"] == "set in .env"
    assert "'${oc.env:ACME_STAMP}'" in found["configuration", "astuner.seed"]["detail"]
    said = [doctor("--conf", conf), doctor("--conf", conf, "--json")]
    assert SECRET not in "".join(run.stdout + run.stderr for run in said)


def test_a_secret_that_an_error_would_quote_is_hidden(doctor: Doctor, conf: Path) -> None:
    conf.write_text(conf.read_text() + "  seed: ${oc.env:ACME_API_KEY}\n")
    found = doctor("--conf", conf, ACME_API_KEY=SECRET)
    assert found.returncode == 1
    assert "astuner.seed" in found.stdout
    assert SECRET not in found.stdout + found.stderr


def test_a_key_of_the_environment_is_named_and_never_shown(doctor: Doctor, rows: Rows) -> None:
    assert rows(HF_TOKEN=SECRET)["keys", "HF_TOKEN"]["detail"] == "set in the environment"
    assert SECRET not in doctor(HF_TOKEN=SECRET).stdout


def test_a_variable_that_the_configuration_needs_and_has_not_is_broken(rows: Rows, conf: Path) -> None:
    conf.write_text(
        conf.read_text() + "  gateway: {host: '${oc.env:GATEWAY_HOST,127.0.0.1}', public_url: '${oc.env:GATEWAY_URL}'}\n"
    )
    found = rows("--conf", conf)
    assert found["keys", "GATEWAY_URL"]["status"] == "broken"
    assert found["keys", "GATEWAY_HOST"]["detail"] == "not set; the configuration has a default for it"


def test_a_fixed_port_of_the_configuration_is_tried(rows: Rows, conf: Path) -> None:
    assert "127.0.0.1:18000" in rows("--conf", conf)["ports", "debug.debug_vllm_port"]["detail"]
