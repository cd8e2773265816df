"""The help of every command ends with an example, whose arguments and options the command knows."""

from __future__ import annotations

import shlex

import click
import pytest
from command_tree import COMMANDS


def read_examples(command: click.Command) -> list[list[str]]:
    lines = (command.epilog or "").splitlines()
    return [shlex.split(line) for line in lines if line.startswith("  ")]


def test_every_group_was_entered() -> None:
    assert {path[1] for path in COMMANDS} >= {"run", "plugin", "config", "data", "env", "judge", "quickstart", "trace"}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_an_example_is_what_the_command_takes(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    examples = read_examples(command)
    assert examples, "the help has no example: give the command an `epilog`"
    for words in examples:
        assert tuple(words[: len(path)]) == path
        given, left, _ = command.make_parser(click.Context(command)).parse_args(words[len(path) :])
        assert not left
        required = {parameter.name for parameter in command.params if parameter.required}
        assert required <= {name for name, value in given.items() if value not in (None, ())}
        for parameter in command.params:
            if isinstance(parameter.type, click.Choice) and parameter.name in given:
                parameter.type_cast_value(click.Context(command), given[parameter.name])


def test_an_unknown_option_in_an_example_is_seen() -> None:
    command = COMMANDS["astuner", "run"]
    with pytest.raises(click.NoSuchOption):
        command.make_parser(click.Context(command)).parse_args(["--config", "tune.yaml"])
