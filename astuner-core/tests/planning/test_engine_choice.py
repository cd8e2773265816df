"""What `rollout.name` comes to: the first engine that can be used, one that is named, or one that the backbone brings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import ConfigError
from astuner.settings.planning.plan import Plan, plan_run
from astuner_devkit.project import write_project

ENGINES = """
from astuner.contract.protocols import BackboneTraits, EngineTraits

class Usable:
    pass

class Lacking:
    traits = EngineTraits(reports_lacks=True)

    @classmethod
    def lacks(cls, options):
        return None if options else "the machine has no card"
"""

BACKBONE = """
class Backbone:
    name = "acme"
    traits = BackboneTraits(honours=("*",), default_engines={default!r}, brings_engines={brings!r})
"""

Planned = Callable[..., Plan]


@pytest.fixture
def plan(fake_distribution: Callable[..., Path], tmp_path: Path) -> Planned:
    def planned(default: Any, name: str = "auto", brings: tuple[str, ...] = (), options: Mapping[str, Any] | None = None) -> Plan:
        files = {"acme_engines.py": ENGINES + BACKBONE.format(default=default, brings=brings)}
        engines = {"usable": "acme_engines:Usable", "lacking": "acme_engines:Lacking", "broken": "acme_absent:Engine"}
        fake_distribution(
            "acme-engines",
            files=files,
            entry_points={"astuner.engines": engines, "astuner.backbones": {"acme": "acme_engines:Backbone"}},
            requires=["astuner-core>=0.2,<0.3"],
        )
        settings = {"rollout": {"name": name, **({"lacking": options} if options else {})}}
        return plan_run(write_project(tmp_path, backbone="acme", settings=settings))

    return planned


def engine_of(plan: Plan) -> str | None:
    return None if plan.recipe.engine is None else plan.recipe.engine.candidate.name


def test_the_first_that_can_be_used_is_taken_and_the_others_are_explained(plan: Planned) -> None:
    found = plan(("nobodys", "lacking", "usable"))
    assert engine_of(found) == "usable"
    (told,) = [notice for notice in found.notices if notice.startswith("engine usable: the first of nobodys, lacking, usable")]
    assert "nobodys: no engine 'nobodys'" in told
    assert "lacking: the machine has no card" in told


def test_one_that_cannot_be_loaded_is_passed_over(plan: Planned) -> None:
    assert engine_of(plan(("broken", "usable"))) == "usable"


def test_options_may_be_all_that_an_engine_lacked(plan: Planned) -> None:
    with pytest.raises(ConfigError, match="takes no options"):
        # It is taken, and only then are its options looked at.
        plan(("lacking", "usable"), options={"card": 1})


def test_where_none_can_be_used_every_reason_is_told(plan: Planned) -> None:
    with pytest.raises(ConfigError, match=r"none can: nobodys: no engine 'nobodys'.*; lacking: the machine has no card"):
        plan(("nobodys", "lacking"))


def test_a_single_default_is_taken_as_it_is(plan: Planned) -> None:
    assert engine_of(plan(("usable",))) == "usable"


def test_a_backbone_without_a_preference_brings_its_own(plan: Planned) -> None:
    assert engine_of(plan(())) is None


def test_what_a_backbone_brings_is_left_to_it(plan: Planned) -> None:
    assert engine_of(plan((), name="sglang", brings=("vllm", "sglang"))) is None


def test_sglang_is_refused_where_nobody_brings_it(plan: Planned) -> None:
    with pytest.raises(ConfigError, match=r"'acme' has no engine 'sglang': .* the backbone 'verl'"):
        plan(("usable",), name="sglang")
