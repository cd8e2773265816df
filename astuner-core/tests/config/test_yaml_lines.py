from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import ConfigError
from astuner.settings.config.yaml_lines import read_yaml

FILE = Path("run.yaml")


def value_of(text: str) -> Any:
    return read_yaml(f"value: {text}", FILE).values["value"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("-2.5E3", -2500.0),
        (".5", 0.5),
        ("1_000", 1000),
        ("0x1f", 31),
        ("true", True),
        ("~", None),
    ],
)
def test_plain_scalar_reads_as_what_it_looks_like(text: str, value: Any) -> None:
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["010", "1:30", "2024-01-01", '"3"', "1e", "1.2.3"])
def test_what_only_yaml_1_1_takes_for_a_number_or_date_stays_text(text: str) -> None:
    assert value_of(text) == text.strip('"')


def test_keys_are_always_text() -> None:
    assert read_yaml("on: 1\n2: b\nnull: c", FILE).values == {"on": 1, "2": "b", "null": "c"}


def test_every_key_and_item_has_its_line() -> None:
    text = "a:\n  b:\n    - x: 1\n    -\n      y: 2\n"
    assert read_yaml(text, FILE).lines == {"a": 1, "a.b": 2, "a.b[0]": 3, "a.b[0].x": 3, "a.b[1]": 5, "a.b[1].y": 5}


def test_every_duplicate_key_is_named_with_both_lines() -> None:
    with pytest.raises(ConfigError) as caught:
        read_yaml("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n", FILE)
    found = [(problem.key, problem.line, problem.message) for problem in caught.value.problems]
    assert found == [
        ("a", 5, "This key is already given in line 1. Remove one of the two."),
        ("b.c", 4, "This key is already given in line 3. Remove one of the two."),
    ]


def test_a_merged_mapping_may_be_overridden() -> None:
    text = "base: &base {x: 1, y: 2}\nown:\n  <<: *base\n  y: 3\n"
    assert read_yaml(text, FILE).values["own"] == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1\n", 2),
        ("a:\n\t- b", 2),
        ("a: 1\n---\nb: 2", 2),
        ("a: !!python/object:os.system x", 1),
        ("a: &x [*x]", 1),
        ("b: 1\n? [a]\n: c", 2),
        ("a: !!binary aGk=", 1),
    ],
)
def test_what_is_not_plain_yaml_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(ConfigError, match="This is not valid YAML") as caught:
        read_yaml(text, FILE)
    assert abs((caught.value.problems[0].line or 0) - line) <= 1


@pytest.mark.parametrize(("text", "is_template"), [("a: {{MODEL_PATH}}", True), ("? [a]\n: c", False)])
def test_a_placeholder_of_a_template_is_recognized(text: str, is_template: bool) -> None:
    with pytest.raises(ConfigError) as caught:
        read_yaml(text, FILE)
    assert ("fill it in first" in str(caught.value)) is is_template


def test_control_characters_are_refused() -> None:
    with pytest.raises(ConfigError, match="special characters are not allowed"):
        read_yaml("a: \x01", FILE)
