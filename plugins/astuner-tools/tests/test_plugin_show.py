from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from astuner_devkit.command_line import CommandResult

Cli = Callable[..., CommandResult]

STRICT = '''
"""A judge."""
from attrs import frozen

class Strict:
    """Compare answers to the letter.

    Longer words.
    """

    @frozen(kw_only=True)
    class Options:
        field: str
        """Where the answer lies."""
        case: bool = True
        """Whether case counts."""
'''
LISTENING = '''
import click
from astuner import hookimpl

class Watch:
    """Watches."""

    @hookimpl
    def astuner_notice(self, notice): ...

    @hookimpl(wrapper=True)
    def astuner_make_judge(self):
        return (yield)

    @hookimpl
    def astuner_make_reader(self): ...

    @hookimpl(specname="astuner_notise")
    def misspelt(self): ...

    def helper(self): ...

class Log:
    @hookimpl
    def astuner_step_finished(self, report): ...

watching = Watch()

@click.command()
def hello():
    """Say hello."""
'''
JUDGES = {"astuner.judges": {"strict": "acme_judges.strict:Strict"}}
FILES = {"acme_judges/strict.py": STRICT}


@pytest.fixture
def listening(fake_distribution: Callable[..., Path]) -> None:
    """A distribution with extensions, a logger and a command."""
    targets = {
        "astuner.hooks": {"watch": "acme_watch:Watch", "watching": "acme_watch:watching"},
        "astuner.loggers": {"log": "acme_watch:Log"},
        "astuner.commands": {"hello": "acme_watch:hello"},
    }
    fake_distribution("acme-watch", files={"acme_watch.py": LISTENING}, entry_points=targets)


def test_one_component_is_shown_with_its_options(cli: Cli, fake_distribution: Callable[..., Path]) -> None:
    fake_distribution("acme-judges", "1.2.0", FILES, JUDGES, requires=["astuner-core>=0.2,<0.3"])
    assert cli("plugin", "show", "judges", "strict").out == (
        "judge strict\n"
        "Compare answers to the letter.\n"
        "\n"
        "from      acme-judges 1.2.0\n"
        "target    acme_judges.strict:Strict\n"
        "made for  astuner-core>=0.2,<0.3\n"
        "status    ok\n"
        "\n"
        "options:\n"
        "  field: str (required)\n"
        "      Where the answer lies.\n"
        "  case: bool (default true)\n"
        "      Whether case counts.\n"
    )


def test_one_component_as_json_is_one_document(cli: Cli, fake_distribution: Callable[..., Path]) -> None:
    fake_distribution("acme-judges", "1.2.0", FILES, JUDGES)
    shown = json.loads(cli("plugin", "show", "judge", "strict", "--json").out)
    case = {"name": "case", "type": "bool", "required": False, "default": True, "doc": "Whether case counts."}
    assert (shown["options"][1], shown["hooks"], shown["version"]) == (case, [], "1.2.0")


def test_one_that_cannot_be_loaded_is_shown_with_the_blame_and_fails(cli: Cli, fake_distribution: Callable[..., Path]) -> None:
    fake_distribution("acme-judges", "1.2.0", {"acme_judges/strict.py": "1 / 0"}, JUDGES)
    found = cli("plugin", "show", "judge", "strict")
    assert found.code == 1
    assert "status    judge 'strict' from acme-judges 1.2.0 (acme_judges.strict:Strict): ZeroDivisionError" in found.out


def test_a_missing_extra_is_shown_with_the_command_that_installs_it(cli: Cli, fake_distribution: Callable[..., Path]) -> None:
    targets = {"astuner.judges": {"strict": "acme_judges.strict:Strict [exact]"}}
    fake_distribution("acme-judges", "1.2.0", FILES, targets, requires=['acme-absent>=2; extra == "exact"'])
    found = cli("plugin", "show", "judge", "strict")
    assert "status    lacks acme-absent>=2: pip install 'acme-judges[exact]'\n" in found.out


def test_the_hooks_of_an_extension_are_shown_with_what_it_does_in_them(cli: Cli, listening: None) -> None:
    assert (
        "hooks:\n"
        "  astuner_make_judge: wraps\n"
        "  astuner_make_reader: decides\n"
        "  astuner_notice: listens\n"
        "  astuner_notise: there is no such hook\n"
    ) in cli("plugin", "show", "hook", "watch").out


def test_an_extension_that_is_an_object_has_the_hooks_of_its_class(cli: Cli, listening: None) -> None:
    shown = [json.loads(cli("plugin", "show", "hook", name, "--json").out)["hooks"] for name in ("watch", "watching")]
    assert shown[0] == shown[1]


def test_the_hooks_of_a_logger_are_shown(cli: Cli, listening: None) -> None:
    shown = json.loads(cli("plugin", "show", "logger", "log", "--json").out)
    assert shown["hooks"] == [{"name": "astuner_step_finished", "role": "listens"}]


def test_a_command_is_shown_with_its_help(cli: Cli, listening: None) -> None:
    assert cli("plugin", "show", "command", "hello").out.startswith("command hello\nSay hello.\n")


def test_a_name_that_two_offer_is_refused_with_the_way_out(cli: Cli, fake_distribution: Callable[..., Path]) -> None:
    fake_distribution("acme-judges", "1.2.0", FILES, JUDGES)
    fake_distribution("other-judges", "2.0", FILES, JUDGES)
    found = cli("plugin", "show", "judge", "strict")
    assert found.code == 2
    assert "Write `acme-judges/strict` or `other-judges/strict`" in found.err


def test_the_one_that_is_meant_is_shown_with_its_rival(cli: Cli, fake_distribution: Callable[..., Path]) -> None:
    fake_distribution("acme-judges", "1.2.0", FILES, JUDGES)
    fake_distribution("other-judges", "2.0", FILES, JUDGES)
    found = cli("plugin", "show", "judge", "other-judges/strict")
    assert found.code == 0
    assert "status    acme-judges 1.2.0 offers 'strict' too: write other-judges/strict\n" in found.out


def test_a_file_of_ones_own_is_shown_too(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(STRICT)
    assert "from      a path" in cli("plugin", "show", "judge", "./mine.py:Strict").out


def test_an_unknown_kind_names_those_that_are(cli: Cli) -> None:
    found = cli("plugin", "show", "juge", "math")
    assert found.code == 2
    assert "no kind 'juge'; there are: reader, judge," in found.err
    assert "Did you mean 'judge'?" in found.err
