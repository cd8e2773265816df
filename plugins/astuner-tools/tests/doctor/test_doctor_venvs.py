"""The environments that backbones have of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.settings.plugins.catalog import Catalog
from astuner_tools.doctor.venvs import venv_rows

BACKBONE = """
import os
from pathlib import Path

from astuner.contract.protocols import BackboneTraits, VenvState


class AcmeVenv:
    def examine(self, backbone):
        status, _, reason = os.environ["ACME_VENV"].partition(": ")
        return VenvState(backbone=backbone, status=status, directory=Path("/venvs/acme"), reason=reason, command="acme make")


class Acme:
    name = "acme"
    traits = BackboneTraits(honours=("*",), own_venv=AcmeVenv())
"""


@pytest.fixture
def be(fake_distribution: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Installs a backbone with an environment of its own, and sets the state of that: `STATUS: REASON`."""
    offer = {"astuner.backbones": {"acme": "acme_backbone:Acme"}}
    fake_distribution(
        "acme-backbone", files={"acme_backbone.py": BACKBONE}, entry_points=offer, requires=("astuner-core>=0.2,<0.3",)
    )
    return lambda state: monkeypatch.setenv("ACME_VENV", state)


@pytest.mark.parametrize(
    ("state", "row"),
    [
        ("outdated: which is old", ("missing", "which is old")),
        ("ready: lacks acme-new==2.0", ("ok", "ready: /venvs/acme; it lacks acme-new==2.0")),
        ("in place", ("ok", "in place: /venvs/acme")),
    ],
)
def test_a_state_is_a_row(be: Callable[[str], None], state: str, row: tuple[str, str]) -> None:
    be(state)
    (found,) = (one for one in venv_rows(Catalog.discover(kinds=("backbone",))) if one.what == "backbone acme")
    assert (found.status, found.detail, found.remedy) == (*row, "acme make")


def test_the_doctor_shows_it(astuner: Callable[..., Any], be: Callable[[str], None]) -> None:
    be("missing: which is not set up yet")
    rows = json.loads(astuner("doctor", "--json").stdout)["rows"]
    (found,) = (one for one in rows if one["what"] == "backbone acme" and one["area"] == "own environments")
    assert (found["status"], found["remedy"]) == ("missing", "acme make")
