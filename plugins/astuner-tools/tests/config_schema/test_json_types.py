"""The schema of a class and the loader's verdict on values of it are the same, type by type and validator by validator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from attrs import Factory, field, frozen
from attrs.validators import and_, deep_iterable, ge, gt, in_, instance_of, le, lt, matches_re, max_len, min_len, optional
from jsonschema import Draft7Validator

from astuner.settings.config.structure_errors import FaultsError
from astuner.settings.config.structuring import make_converter
from astuner_tools.config_schema.json_types import build_class_schema


class Colour(Enum):
    RED = "red"
    ONE = 1


@frozen(kw_only=True)
class Inner:
    level: int = 1


@frozen(kw_only=True)
class Needy:
    level: int


@frozen(kw_only=True)
class Options:
    flag: bool = False
    whole: int = 0
    number: float = 0.0
    text: str = ""
    path: Path = Path()
    anything: Any = None
    colour: Colour = Colour.RED
    choice: Literal["auto", 1, False] = "auto"
    maybe: int | None = None
    maybe_choice: Literal["a"] | None = None
    either: int | str = 0
    numbers: float | int = 0
    word_or_words: str | tuple[str, ...] = ""
    word_or_number_list: int | list[str] = 0
    inner: Inner = Factory(Inner)
    maybe_inner: Inner | None = None
    needy: Needy = Needy(level=1)
    maybe_needy: Needy | None = None
    inners: tuple[Inner, ...] = ()
    several: list[int] = Factory(list)
    unordered: frozenset[str] = frozenset()
    sequence: Sequence[float] = ()
    pair: tuple[int, int] = (0, 0)
    mixed: tuple[int, str] = (0, "")
    bare_list: list = Factory(list)  # type: ignore[type-arg]  # what a plugin may write
    free: Mapping[str, Any] = Factory(dict)
    named: dict[str, int] = Factory(dict)
    inner_by_name: Mapping[str, Inner] = Factory(dict)
    chosen_keys: Mapping[Literal["a", "b"], int] = Factory(dict)
    at_least: int = field(default=1, validator=ge(1))
    above: float = field(default=1.0, validator=gt(0))
    share: float = field(default=0.0, validator=and_(ge(0), le(1)))
    several_validators: int = field(default=1, validator=[ge(1), lt(3)])
    maybe_at_least: int | None = field(default=None, validator=optional(ge(1)))
    one_of: str = field(default="a", validator=in_(["a", "text"]))
    one_of_numbers: int = field(default=1, validator=in_((1, 3)))
    maybe_one_of: str | None = field(default=None, validator=optional(in_(["a"])))
    part_of: str = field(default="text", validator=in_("a text"))
    long: str = field(default="long", validator=min_len(3))
    short: str = field(default="", validator=max_len(3))
    some: tuple[str, ...] = field(default=("a",), validator=min_len(1))
    few: tuple[Any, ...] = field(default=(), validator=max_len(1))
    shaped: str = field(default="a", validator=matches_re("[a-c]+"))
    each: tuple[int, ...] = field(default=(), validator=deep_iterable(ge(1), instance_of(tuple)))
    of_class: int = field(default=0, validator=instance_of(int))
    converted: int = field(default=2, converter=lambda value: value * 2, validator=ge(4))


VALUES = [
    *(None, True, False, 0, 1, 2, 3, -1, 0.5, 1.5, "", "a", "red", "auto", "text", "abc", "1", "true"),
    *([], [1], [0], [-1], ["a"], [1, 2], [1, "a"], [1, 2, 3], [{}], [{"level": 1}], [None], [[1]]),
    *({}, {"level": 1}, {"level": "1"}, {"levels": 1}, {"a": 1}, {"a": "b"}, {"a": {}}, {"a": {"level": 2}}, {"a": None}),
]
CONVERTER = make_converter()
VALIDATOR = Draft7Validator(build_class_schema(Options))
WRITTEN_OUT = {"part_of", "converted"}
"""What only the loader can judge: the schema is more lenient."""


def structures(tree: Mapping[str, object]) -> bool:
    try:
        CONVERTER.structure(tree, Options)
    except FaultsError:
        return False
    return True


@pytest.mark.parametrize("name", [name for name in Options.__annotations__ if name not in WRITTEN_OUT])
def test_schema_and_loader_accept_the_same_values(name: str) -> None:
    accepted = [value for value in VALUES if structures({name: value})]
    assert accepted
    assert accepted == [value for value in VALUES if VALIDATOR.is_valid({name: value})]


@pytest.mark.parametrize("name", sorted(WRITTEN_OUT))
def test_where_only_the_loader_can_judge_the_schema_lets_pass(name: str) -> None:
    accepted = [value for value in VALUES if structures({name: value})]
    assert accepted == [value for value in accepted if VALIDATOR.is_valid({name: value})]


@pytest.mark.parametrize("name", list(Options.__annotations__))
def test_an_interpolation_may_stand_for_any_value(name: str) -> None:
    assert VALIDATOR.is_valid({name: "${oc.env:SOME_LONG_NAME}"})


@pytest.mark.parametrize("name", ["short", "shaped", "long", "text"])
def test_an_interpolation_may_be_a_part_of_a_text(name: str) -> None:
    assert VALIDATOR.is_valid({name: "pre-${oc.env:SOME_LONG_NAME}"})


def test_an_interpolation_inside_other_text_gives_no_number() -> None:
    assert not VALIDATOR.is_valid({"whole": "1${oc.env:A}"})


def test_a_key_without_default_is_required() -> None:
    assert build_class_schema(Needy)["required"] == ["level"]


@frozen(kw_only=True)
class Tree:
    leaf: int = 0
    below: Tree | None = None


def test_a_class_that_contains_itself_is_described_to_the_first_level() -> None:
    validator = Draft7Validator(build_class_schema(Tree))
    assert validator.is_valid({"leaf": 1, "below": {"leaf": 2, "below": {"leaf": 3}}})
    assert not validator.is_valid({"leaf": "1"})
