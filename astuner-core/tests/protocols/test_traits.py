"""What a component says of itself is one record, which is checked when its class is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import PluginError
from astuner.contract.protocols import EngineTraits, EstimatorTraits, has_methods, read_traits
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.drivers import TRAITS, load

ENGINE = """
from attrs import evolve

from astuner.contract.protocols import EngineTraits, EstimatorTraits


class Engine:
    BODY
"""

Load = Callable[..., Any]


class Busy:
    traits = EngineTraits(measures_busy_time=True)
    busy_s = 1.5

    def report_to(self, say: Any) -> None:
        """Not promised."""


class Wrapper:
    def __init__(self, inner: object) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.fixture
def load_engine(fake_distribution: Callable[..., Path], tmp_path: Path) -> Load:
    def install(body: str) -> Any:
        fake_distribution(
            "acme-engines",
            version="1.2.0",
            files={"acme_engines.py": ENGINE.replace("BODY", body.replace("\n", "\n    "))},
            entry_points={"astuner.engines": {"acme": "acme_engines:Engine"}},
            requires=["astuner-core>=0.2,<0.3"],
        )
        return load(Catalog.discover().find("engine", "acme", config_dir=tmp_path, key="rollout.name"))

    return install


def test_a_component_without_traits_has_the_defaults() -> None:
    assert read_traits(object(), EngineTraits) == EngineTraits()
    assert read_traits(None, EngineTraits) == EngineTraits()


def test_traits_are_read_off_a_class_and_its_instances() -> None:
    assert read_traits(Busy, EngineTraits) is read_traits(Busy(), EngineTraits) is Busy.traits


def test_a_wrapper_has_the_traits_of_what_it_wraps() -> None:
    assert read_traits(Wrapper(Busy()), EngineTraits) is Busy.traits
    assert has_methods(Wrapper(Busy()), "report_to")


@pytest.mark.parametrize("traits", [{"measures_busy_time": True}, EstimatorTraits()])
def test_traits_of_an_instance_that_are_no_such_record_are_refused(traits: object) -> None:
    broken = Busy()
    broken.traits = traits  # type: ignore[assignment]
    with pytest.raises(PluginError, match=r"Busy.traits must be EngineTraits\(…\)"):
        read_traits(broken, EngineTraits)


@pytest.mark.parametrize("record", TRAITS.values())
def test_every_field_has_a_default(record: type[Any]) -> None:
    assert record() == record()


def test_a_class_that_keeps_its_word_is_loaded(load_engine: Load) -> None:
    body = "traits = EngineTraits(reports_progress=True)\n\ndef report_to(self, say): pass"
    assert load_engine(body).traits == EngineTraits(reports_progress=True)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("trait = EngineTraits(gives_access=True)", "`trait` is never read; the attribute is called `traits`"),
        ("traits = EngineTraits(give_access=True)", "unexpected keyword argument 'give_access'"),
        ("traits = EngineTraits(gives_access='yes')", "'gives_access' must be <class 'bool'>"),
        ("traits = EngineTraits(honours={'*': 'rollout.top_k'})", "'honours' must be <class 'tuple'>"),
        ("traits = {'gives_access': True}", "`traits` must be EngineTraits(…), not {'gives_access': True}"),
        ("traits = EstimatorTraits()", "`traits` must be EngineTraits(…), not EstimatorTraits("),
        ("traits = EngineTraits(gives_access=True)", "its traits say gives_access=True, and it has no method `give_access`"),
        ("traits = EngineTraits(gives_access=True)\ngive_access = None", "it has no method `give_access`"),
        (
            "def give_access(self): pass",
            "`give_access` is never used, unless its traits say so: traits = EngineTraits(gives_access=True)",
        ),
        ("busy_s = 1.0", "`busy_s` is never used, unless its traits say so: traits = EngineTraits(measures_busy_time=True)"),
    ],
)
def test_a_class_that_contradicts_its_traits_is_refused_with_its_distribution(load_engine: Load, body: str, fault: str) -> None:
    with pytest.raises(PluginError) as caught:
        load_engine(body)
    assert str(caught.value).startswith("engine 'acme' from acme-engines 1.2.0 (acme_engines:Engine): ")
    assert fault in str(caught.value)
