"""`astuner setup`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Astuner = Callable[..., "subprocess.CompletedProcess[str]"]

BACKBONE = """
from pathlib import Path

from astuner.contract.protocols import BackboneTraits
from astuner_trinity.own_venv.locked_venv import LockedVenv

FOLDER = Path(__file__).parent


class Acme:
    name = "acme"
    traits = BackboneTraits(
        honours=("*",),
        own_venv=LockedVenv(
            in_place_with="acme-trainer", requirements=FOLDER / "acme.txt", lock=FOLDER / "acme.txt", systems=SYSTEMS
        ),
    )
"""

FOREIGN = """
from pathlib import Path

from astuner.contract.protocols import BackboneTraits, VenvState


class AcmeVenv:
    def examine(self, backbone):
        return VenvState(backbone=backbone, status="missing", directory=Path("/venvs/acme"), command="acme make")


class Acme:
    name = "acme"
    traits = BackboneTraits(honours=("*",), own_venv=AcmeVenv())
"""


@pytest.fixture
def acme(fake_distribution: Callable[..., Path]) -> Callable[..., None]:
    """Installs a backbone with an environment of its own."""

    def install(systems: object = ()) -> None:
        files = {"acme_backbone.py": BACKBONE.replace("SYSTEMS", repr(systems)), "acme.txt": "acme-trainer==1.0\n"}
        offer = {"astuner.backbones": {"acme": "acme_backbone:Acme"}}
        fake_distribution("acme-backbone", files=files, entry_points=offer, requires=("astuner-core>=0.2,<0.3",))

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


def test_a_machine_that_its_libraries_are_not_made_for_is_refused(
    astuner: Astuner, acme: Callable[..., None], tmp_path: Path
) -> None:
    acme((("plan9", "mips"),))
    refused = astuner("setup", "acme", ASTUNER_VENVS=str(tmp_path / "venvs"))
    assert refused.returncode == 2
    assert "whose libraries exist for plan9 mips alone" in refused.stderr


def test_what_another_package_makes_is_left_to_it(astuner: Astuner, fake_distribution: Callable[..., Path]) -> None:
    files = {"acme_backbone.py": FOREIGN}
    offer = {"astuner.backbones": {"acme": "acme_backbone:Acme"}}
    fake_distribution("acme-backbone", files=files, entry_points=offer, requires=("astuner-core>=0.2,<0.3",))
    refused = astuner("setup", "acme")
    assert refused.returncode == 2
    assert "this backbone's own package makes its environment: acme make" in refused.stderr
