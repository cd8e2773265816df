"""What is shown of a component's options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from astuner.settings.config.redaction import REDACTED
from astuner_tools.option_docs import describe_options


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


def test_options_are_described_with_types_defaults_and_the_words_under_the_field() -> None:
    assert [(o.name, o.type, o.required, o.default, o.doc) for o in describe_options(Graded.Options)] == [
        ("language", "str", False, "en", "Of the prompts."),
        ("model.name", "str", True, None, "Which model is asked."),
        ("weights", "Mapping[str, float]", False, {}, "Share of each part."),
        ("file", "Path | None", False, None, ""),
        ("undocumented", "int", False, 3, ""),
    ]


def test_a_component_without_options_has_none_to_describe() -> None:
    assert describe_options(None) == ()


def test_the_default_of_a_secret_option_is_not_described() -> None:
    @frozen
    class Options:
        api_key: str = "12345678"
        model: str = "m"

    assert [option.default for option in describe_options(Options)] == [REDACTED, "m"]
