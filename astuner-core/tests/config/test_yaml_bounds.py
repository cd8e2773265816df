"""A YAML text that stands for more than it holds is an error with its file, wherever YAML is read."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from astuner.contract.errors import ConfigError
from astuner.settings.config.loading import load_config
from astuner.settings.config.overrides import read_overrides
from astuner.settings.config.yaml_bounds import DEEPEST, MOST_COPIES, load_plain_yaml
from astuner.settings.config.yaml_lines import read_yaml

LEVELS = "\n".join(f"  k{number}: &k{number} [{', '.join([f'*k{number - 1}'] * 10)}]" for number in range(1, 9))
BOMB = f"astuner:\n  k0: &k0 [a]\n{LEVELS}\n"
MERGES = "a0: &a0 {x: 1}\n" + "\n".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 9))
CHAIN = "\n".join(f"k{n}: &k{n} {'[' * 20}{f'*k{n - 1}' if n else 'a'}{']' * 20}" for n in range(5))
HOSTILE = {
    "aliases": BOMB,
    "merged aliases": MERGES,
    "nested lists": "a: " + "[" * 3000 + "]" * 3000,
    "nested lists that do not end": "a: " + "[" * 3000,
    "nested sections": "\n".join(" " * number + f"k{number}:" for number in range(1200)),
    "nested by aliases": CHAIN,
    "an anchor inside itself": "a: &a [*a]",
    "an anchor merged into itself": "a: &a\n  <<: *a",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_an_error_with_its_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "tune.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"tune\.yaml.*not valid YAML"):
        load_config(file)
    with pytest.raises(yaml.YAMLError):
        load_plain_yaml(text)


def test_a_hostile_value_of_the_command_line_is_an_error_with_its_key() -> None:
    problems = read_overrides([f"rollout.temperature={HOSTILE['nested lists']}"], None).problems
    assert [str(problem.file) for problem in problems] == ["--set rollout.temperature"]


def test_a_text_within_the_bounds_is_read() -> None:
    deep = "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1)
    many = f"a: &a [{', '.join('x' * 100)}]\nb: [{', '.join(['*a'] * (MOST_COPIES // 102))}]\nc: {deep}"
    values = read_yaml(many, Path("f")).values
    assert sum(map(len, values["b"])) == 100 * (MOST_COPIES // 102)
    assert load_plain_yaml(many) == values


def test_a_long_text_without_aliases_has_no_bound() -> None:
    rows = "\n".join(f"- {{n: {number}}}" for number in range(MOST_COPIES // 10))
    assert len(read_yaml(rows, Path("f")).values) == MOST_COPIES // 10
