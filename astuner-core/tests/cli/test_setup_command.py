"""`astuner setup`, and what other commands say of a backbone that is not set up."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from astuner_devkit.project import write_project

Astuner = Callable[..., "subprocess.CompletedProcess[str]"]

BACKBONE = """
from pathlib import Path

from astuner.contract.protocols import BackboneTraits, OwnVenv

FOLDER = Path(__file__).parent


class Acme:
    name = "acme"
    traits = BackboneTraits(
        honours=("*",),
        own_venv=OwnVenv(
            in_place_with="acme-trainer", requirements=FOLDER / "acme.txt", lock=FOLDER / "acme.txt", systems=SYSTEMS
        ),
    )
"""


@pytest.fixture
def acme(fake_distribution: Callable[..., Path]) -> Callable[..., None]:
    """Installs a backbone with an environment of its own."""

    def install(systems: object = ()) -> None:
        files = {"acme_backbone.py": BACKBONE.replace("SYSTEMS", repr(systems)), "acme.txt": "acme-trainer==1.0\n"}
        offer = {"astuner.backbones": {"acme": "acme_backbone:Acme"}}
        fake_distribution("acme-backbone", files=files, entry_points=offer, requires=("astuner-core>=0.1,<0.2",))

    return install


def states(astuner: Astuner, tmp_path: Path) -> dict[str, dict[str, str]]:
    found = json.loads(astuner("setup", "--json", ASTUNER_VENVS=str(tmp_path / "venvs")).stdout)
    return {row["backbone"]: row for row in found}


def test_the_environments_of_all_backbones_are_listed(
    astuner: Astuner, acme: Callable[..., None], fake_distribution: Callable[..., Path], tmp_path: Path
) -> None:
    acme()
    row = states(astuner, tmp_path)["acme"]
    assert (row["status"], row["directory"]) == ("missing", str(tmp_path / "venvs" / "acme"))
    assert row["command"] == "astuner setup acme"
    fake_distribution("acme-trainer")
    assert states(astuner, tmp_path)["acme"]["status"] == "in place"
    nothing = astuner("setup", "acme")
    assert nothing.returncode == 0
    assert "acme-trainer is installed in this environment" in nothing.stderr


def test_a_backbone_without_one_has_nothing_to_set_up(astuner: Astuner) -> None:
    done = astuner("setup", "debug")
    assert done.returncode == 0
    assert "the backbone 'debug' runs in this environment" in done.stderr


def test_a_backbone_that_does_not_exist_is_refused(astuner: Astuner) -> None:
    refused = astuner("setup", "dbug")
    assert refused.returncode == 2
    assert "astuner setup: no backbone 'dbug'" in refused.stderr


def test_options_need_the_name_of_a_backbone(astuner: Astuner) -> None:
    refused = astuner("setup", "--dry-run")
    assert refused.returncode == 2
    assert "name the backbone" in refused.stderr


@pytest.mark.parametrize("command", [("run",), ("run", "--dry-run"), ("eval",), ("config", "validate")])
def test_what_needs_a_backbone_that_is_not_set_up_names_the_command(
    astuner: Astuner, acme: Callable[..., None], tmp_path: Path, command: tuple[str, ...]
) -> None:
    acme()
    conf = write_project(tmp_path / "project", backbone="acme")
    refused = astuner(*command, "--conf", str(conf), ASTUNER_VENVS=str(tmp_path / "venvs"))
    assert refused.returncode == 2
    assert "astuner.backbone: the backbone 'acme' has its own virtual environment" in refused.stderr
    assert refused.stderr.count("which is not set up yet: astuner setup acme") == 1


def test_a_machine_that_its_libraries_are_not_made_for_is_refused(
    astuner: Astuner, acme: Callable[..., None], tmp_path: Path
) -> None:
    acme((("plan9", "mips"),))
    refused = astuner("setup", "acme", ASTUNER_VENVS=str(tmp_path / "venvs"))
    assert refused.returncode == 2
    assert "whose libraries exist for plan9 mips alone" in refused.stderr


def test_the_doctor_shows_it(astuner: Astuner, acme: Callable[..., None], tmp_path: Path) -> None:
    acme()
    found = json.loads(astuner("doctor", "--json", ASTUNER_VENVS=str(tmp_path / "venvs")).stdout)["rows"]
    (row,) = (row for row in found if row["what"] == "backbone acme")
    assert (row["status"], row["remedy"]) == ("missing", "astuner setup acme")
