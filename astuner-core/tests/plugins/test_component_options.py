from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import field, frozen

from astuner.contract.errors import ConfigError
from astuner.settings.plugins.options import build_options


@frozen(kw_only=True)
class Model:
    name: str
    """Which model
    is asked."""


@frozen(kw_only=True)
class Base:
    language: str = "en"
    """Of the prompts."""


class Graded:
    @frozen(kw_only=True)
    class Options(Base):
        model: Model
        weights: Mapping[str, float] = field(factory=dict)
        """Share of each part."""
        file: Path | None = None
        undocumented: int = 3


class Plain:
    pass


def test_a_section_becomes_the_components_options() -> None:
    options = build_options(Graded, {"model": {"name": "m"}, "undocumented": 4}, key="astuner.task_judge.graded")
    assert options == Graded.Options(model=Model(name="m"), undocumented=4)


def test_an_option_that_does_not_exist_is_named_below_its_section() -> None:
    with pytest.raises(ConfigError, match=r"astuner\.task_judge\.graded\.undocumentd"):
        build_options(Graded, {"model": {"name": "m"}, "undocumentd": 4}, key="astuner.task_judge.graded")


def test_no_section_for_a_component_without_options_is_none() -> None:
    assert build_options(Plain, {}, key="astuner.task_judge.plain") is None


def test_options_for_a_component_without_any_are_refused_at_their_line() -> None:
    with pytest.raises(ConfigError) as caught:
        build_options(Plain, {"lenient": True}, key="astuner.task_judge.plain", locate=lambda key: (Path("a.yaml"), 7))
    assert str(caught.value) == (
        "a.yaml:7: astuner.task_judge.plain: Plain takes no options, so 'lenient' would have no effect; remove it"
    )
