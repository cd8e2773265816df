from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from attrs import Attribute, field, frozen
from attrs.validators import ge

from astuner.contract.errors import ConfigError
from astuner.settings.config.places import Place, Places
from astuner.settings.config.structuring import make_converter, structure_options


class Mode(Enum):
    FAST = "fast"
    SLOW = "slow"


@frozen(kw_only=True)
class Inner:
    name: str
    size: int = field(default=1, validator=ge(1))


@frozen(kw_only=True)
class Options:
    """What a plugin's options may look like."""

    count: int = 0
    share: float = 0.5
    on: bool = False
    text: str | None = None
    path: Path = Path()
    mode: Literal["pointwise", "listwise"] = "pointwise"
    speed: Mode = Mode.FAST
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    pair: tuple[float, float] = (0.0, 1.0)
    weight: float | Mapping[str, float] = 1.0
    names: Sequence[str] = ()
    columns: Mapping[str, str] = field(factory=dict)
    anything: Any = None
    low: int = 0
    high: int = field(default=10)

    @high.validator
    def _above_low(self, attribute: Attribute[int], value: int) -> None:
        if value <= self.low:
            raise ValueError(f"must be above low ({self.low})")


def nowhere(key: str) -> Place | None:
    return None


def faults(values: Mapping[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        structure_options(Options, values, key="astuner.task_judge.mine", locate=nowhere)
    return [str(problem).removeprefix("astuner.task_judge.mine") for problem in caught.value.problems]


def test_every_kind_of_field_is_structured() -> None:
    made = structure_options(
        Options,
        {
            "count": 3,
            "share": 1,
            "text": "x",
            "path": "a/b",
            "mode": "listwise",
            "speed": "slow",
            "inner": {"name": "n"},
            "many": [{"name": "a", "size": 2}],
            "pair": [1, 2.5],
            "weight": {"a": 1},
            "names": ["x", "y"],
            "anything": [1, {"a": None}],
        },
        key="k",
        locate=nowhere,
    )
    assert made == Options(
        count=3,
        share=1.0,
        text="x",
        path=Path("a/b"),
        mode="listwise",
        speed=Mode.SLOW,
        inner=Inner(name="n"),
        many=(Inner(name="a", size=2),),
        pair=(1.0, 2.5),
        weight={"a": 1.0},
        names=("x", "y"),
        anything=[1, {"a": None}],
    )


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"count": "3"}, ".count: expected a whole number, got the text '3'. Remove the quotes."),
        ({"count": 3.0}, ".count: expected a whole number, got 3.0."),
        ({"count": True}, ".count: expected a whole number, got true."),
        ({"share": "half"}, ".share: expected a number, got the text 'half'."),
        ({"share": float("nan")}, ".share: expected a finite number, got nan."),
        ({"on": 1}, ".on: expected true or false, got 1."),
        ({"text": 3}, ".text: expected text, got 3. Put it in quotes."),
        ({"text": False}, ".text: expected text, got false. Put it in quotes."),
        ({"count": None}, ".count: expected a whole number, got nothing."),
        ({"names": "x"}, ".names: expected a list, got the text 'x'."),
        ({"names": ["x", 1]}, ".names[1]: expected text, got 1. Put it in quotes."),
        ({"pair": [1]}, ".pair: expected a list of 2 items, got 1."),
        ({"columns": ["x"]}, ".columns: expected a section, got a list."),
        ({"columns": {"a": 1}}, ".columns.a: expected text, got 1. Put it in quotes."),
        ({"weight": "1"}, ".weight: expected a number or a section, got the text '1'."),
        ({"weight": {"a": "1"}}, ".weight.a: expected a number, got the text '1'. Remove the quotes."),
        ({"mode": "listwize"}, ".mode: expected one of pointwise, listwise, got the text 'listwize'. Did you mean 'listwise'?"),
        ({"speed": "slwo"}, ".speed: expected one of fast, slow, got the text 'slwo'. Did you mean 'slow'?"),
        ({"inner": {}}, ".inner.name: this key is required."),
        ({"inner": {"name": "n", "size": 0}}, ".inner.size: 'size' must be >= 1: 0."),
        ({"many": [{"name": "n", "sise": 2}]}, ".many[0].sise: there is no such key. Did you mean 'size'?"),
        ({"low": 5, "high": 5}, ".high: must be above low (5)."),
        ({"colums": {}}, ".colums: there is no such key. Did you mean 'columns'?"),
    ],
)
def test_what_does_not_fit_is_named_with_its_path(values: Mapping[str, Any], fault: str) -> None:
    assert faults(values) == [fault]


def test_all_faults_are_found_at_once() -> None:
    assert faults({"count": "x", "nam": 1, "inner": {"size": -1}, "many": [{"name": 1}, {"name": 2}]}) == [
        ".count: expected a whole number, got the text 'x'.",
        ".inner.name: this key is required.",
        ".inner.size: 'size' must be >= 1: -1.",
        ".many[0].name: expected text, got 1. Put it in quotes.",
        ".many[1].name: expected text, got 2. Put it in quotes.",
        ".nam: there is no such key. Did you mean 'names'?",
    ]


def test_problem_stands_where_the_key_was_written() -> None:
    places = Places({"astuner.task_judge.mine": (Path("run.yaml"), 7), "astuner.task_judge.mine.inner": (Path("run.yaml"), 9)})
    with pytest.raises(ConfigError) as caught:
        structure_options(Options, {"inner": {}}, key="astuner.task_judge.mine", locate=places)
    [problem] = caught.value.problems
    assert (problem.file, problem.line) == (Path("run.yaml"), 9)


def test_empty_section_is_one_without_keys() -> None:
    @frozen(kw_only=True)
    class Outer:
        options: Options = field(factory=Options)

    made = make_converter().structure({"options": {"columns": None}}, Outer)
    assert made == Outer()


def test_error_of_a_constructor_names_the_section() -> None:
    @frozen(kw_only=True)
    class Range:
        low: int
        high: int

        def __attrs_post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError(f"low ({self.low}) is above high ({self.high})")

    with pytest.raises(ConfigError, match=r"k: low \(2\) is above high \(1\)\."):
        structure_options(Range, {"low": 2, "high": 1}, key="k", locate=nowhere)


def test_converter_of_a_field_runs_before_its_validator() -> None:
    @frozen(kw_only=True)
    class Upper:
        name: str = field(converter=str.upper)

        @name.validator
        def _is_upper(self, attribute: Attribute[str], value: str) -> None:
            if not value.isupper():
                raise ValueError("must be upper case")

    assert structure_options(Upper, {"name": "abc"}, key="k", locate=nowhere).name == "ABC"
