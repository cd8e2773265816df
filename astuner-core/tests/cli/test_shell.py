from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner.cli import exit_code_of
from astuner.shared.install_hints import install_command
from astuner.shared.known_packages import read_known_packages

Astuner = Callable[..., "subprocess.CompletedProcess[str]"]
Offer = Callable[..., None]

HELLO = """
import click
@click.command()
@click.option("--fail", is_flag=True)
def hello(fail):
    '''Say hello.'''
    from astuner.contract.errors import Interrupted
    if fail:
        raise Interrupted("stopped after step 3")
    click.echo("hello")
"""
STARTING = ("attr", "packaging", "psutil", "pluggy")
"""What the other commands need, and `--help` alone does not."""
HEAVY = ("torch", "ray", "transformers", "openai", "numpy", "rich", "stevedore", "omegaconf", "starlette", "httpx", "cattrs")


@pytest.fixture
def offer(fake_distribution: Callable[..., Path]) -> Offer:
    """Installs a distribution with one command."""

    def install(name: str, source: str, dist: str = "acme-tools") -> None:
        module = f"{dist}-{name}".replace("-", "_")
        fake_distribution(dist, files={f"{module}.py": source}, entry_points={"astuner.commands": {name: f"{module}:{name}"}})

    return install


def test_help_lists_every_command_with_its_text(astuner: Astuner) -> None:
    rows = [line.split(maxsplit=1) for line in astuner("--help").stdout.splitlines()]
    assert ["run", "Train the model behind an agent."] in rows
    assert ["plugin", "List, show, check and create plugins."] in rows


@pytest.mark.parametrize("arguments", [["--help"], ["plugin", "list"]])
def test_help_and_the_list_of_plugins_import_nothing_heavy(arguments: list[str]) -> None:
    code = f"import sys; from astuner.cli import exit_code_of; exit_code_of({arguments}); print({set(HEAVY)} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "set()"


def test_help_starts_without_what_other_commands_need() -> None:
    code = f"import sys; from astuner.cli import exit_code_of; exit_code_of(['-h']); print({set(STARTING)} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "set()"


def test_version_is_cores(astuner: Astuner) -> None:
    assert version("astuner-core") in astuner("--version").stdout


def test_a_command_of_a_plugin_is_run(astuner: Astuner, offer: Offer) -> None:
    offer("hello", HELLO)
    assert astuner("hello").stdout == "hello\n"


def test_a_broken_command_is_a_row_in_the_help(astuner: Astuner, offer: Offer) -> None:
    offer("broken", "1 / 0")
    found = astuner("--help")
    assert (found.returncode, found.stderr) == (0, "")
    assert ["broken", "(acme-tools", "1.0)"] in [line.split() for line in found.stdout.splitlines()]


def test_a_broken_command_is_blamed_when_it_is_run(astuner: Astuner, offer: Offer) -> None:
    offer("broken", "1 / 0")
    found = astuner("broken")
    assert found.returncode == 1
    blame = "command 'broken' from acme-tools 1.0 (acme_tools_broken:broken): ZeroDivisionError: division by zero"
    assert found.stderr == f"error: {blame}\n"


def test_a_command_that_two_plugins_offer_is_run_by_its_full_name(astuner: Astuner, offer: Offer) -> None:
    offer("hello", HELLO)
    offer("hello", HELLO, dist="bolt-tools")
    assert astuner("hello").returncode == 2
    assert "acme-tools/hello" in astuner("--help").stdout
    assert astuner("bolt-tools/hello").stdout == "hello\n"


def test_a_plugin_does_not_replace_a_command_of_core(astuner: Astuner, offer: Offer) -> None:
    offer("plugin", HELLO.replace("def hello", "def plugin"))
    assert "KIND" in astuner("plugin", "list").stdout
    assert astuner("acme-tools/plugin").stdout == "hello\n"


@pytest.fixture
def offer_below(fake_distribution: Callable[..., Path]) -> Offer:
    """Installs a distribution with the command `hello` in a group of core."""

    def install(group: str, dist: str = "acme-tools") -> None:
        module = dist.replace("-", "_")
        entry_points = {"astuner.commands": {f"{group}.hello": f"{module}:hello"}}
        fake_distribution(dist, files={f"{module}.py": HELLO}, entry_points=entry_points)

    return install


@pytest.mark.parametrize("group", ["plugin", "config"])
def test_a_plugin_adds_a_command_to_a_group_of_core(astuner: Astuner, offer_below: Offer, group: str) -> None:
    offer_below(group)
    assert astuner(group, "hello").stdout == "hello\n"
    assert ["hello", "Say hello. (acme-tools 1.0)"] in [
        line.split(maxsplit=1) for line in astuner(group, "--help").stdout.splitlines()
    ]
    assert "acme-tools" not in astuner("--help").stdout


def test_a_command_that_two_plugins_add_to_a_group_is_run_with_its_distribution(astuner: Astuner, offer_below: Offer) -> None:
    offer_below("plugin")
    offer_below("plugin", dist="bolt-tools")
    refused = astuner("plugin", "hello")
    assert refused.returncode == 2
    assert "acme-tools 1.0 (acme_tools:hello), bolt-tools 1.0 (bolt_tools:hello)" in refused.stderr
    assert "Write `plugin acme-tools/hello` or `plugin bolt-tools/hello`" in refused.stderr
    assert "acme-tools/hello" in astuner("plugin", "--help").stdout
    assert astuner("plugin", "bolt-tools/hello").stdout == "hello\n"


def test_a_plugin_does_not_replace_a_command_in_a_group_of_core(cli: Callable[..., Any], fake_distribution: Any) -> None:
    files = {"acme_tools.py": HELLO.replace("def hello", "def list_")}
    fake_distribution("acme-tools", files=files, entry_points={"astuner.commands": {"plugin.list": "acme_tools:list_"}})
    assert "--kind KIND" in cli("plugin", "list", "--help").out
    assert cli("plugin", "acme-tools/list").out == "hello\n"


def test_a_command_of_a_group_that_is_not_installed_names_the_package(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = read_known_packages()
    published = evolve(known, components={**known.components, ("command", "config.polish"): "astuner-polish"})
    monkeypatch.setattr("astuner.shared.install_hints.read_known_packages", lambda: published)
    monkeypatch.setattr("astuner.settings.plugins.catalog.read_known_packages", lambda: published)
    found = cli("config", "polish")
    assert found.code == 2
    assert found.err.endswith("It comes with astuner-polish: pip install astuner-polish\n")


def test_a_misspelt_command_of_a_group_is_recognised(astuner: Astuner) -> None:
    found = astuner("plugin", "nwe")
    assert found.returncode == 2
    assert "no command 'nwe'. Did you mean 'new'?" in found.stderr


def test_what_is_no_click_command_is_blamed(astuner: Astuner, offer: Offer) -> None:
    offer("number", "number = 3")
    assert "is 3; a click command is expected" in astuner("number").stderr


def test_a_command_of_a_package_that_is_not_installed_names_the_package(astuner: Astuner) -> None:
    found = astuner("env")
    assert found.returncode == 2
    assert found.stderr.endswith(f"It comes with astuner-envs: {install_command('astuner-envs')}\n")


def test_a_misspelt_command_is_recognised(astuner: Astuner) -> None:
    found = astuner("rnu")
    assert found.returncode == 2
    assert "no command 'rnu'. Did you mean 'run'?" in found.stderr


def test_an_unknown_option_is_a_usage_error(astuner: Astuner) -> None:
    assert astuner("plugin", "list", "--jsno").returncode == 2


def test_an_explained_error_ends_with_its_code_and_without_a_traceback(astuner: Astuner, offer: Offer) -> None:
    offer("hello", HELLO)
    found = astuner("hello", "--fail")
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "stopped after step 3\n")


def test_libraries_draw_no_bars_into_a_pipe(astuner: Astuner, offer: Offer) -> None:
    offer("hello", HELLO.replace('click.echo("hello")', "import os; click.echo(os.environ['HF_HUB_DISABLE_PROGRESS_BARS'])"))
    assert astuner("hello").stdout == "1\n"


def test_the_traceback_is_there_for_who_asks(astuner: Astuner, offer: Offer) -> None:
    offer("hello", HELLO)
    assert "Traceback (most recent call last)" in astuner("hello", "--fail", ASTUNER_TRACEBACK="1").stderr


def test_an_interrupt_from_the_keyboard_is_130(astuner: Astuner, offer: Offer) -> None:
    offer("stuck", "import click\n@click.command()\ndef stuck():\n    raise KeyboardInterrupt\n")
    assert astuner("stuck").returncode == 130


def test_a_command_may_return_its_exit_code(astuner: Astuner, offer: Offer) -> None:
    offer("three", "import click\n@click.command()\ndef three():\n    return 3\n")
    assert astuner("three").returncode == 3


def test_the_command_line_can_be_called_from_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["plugin", "list"]) == 0
    assert "dataset_file" in capsys.readouterr().out


def test_a_reader_that_goes_away_early_leaves_no_traceback(fake_distribution: Callable[..., Path]) -> None:
    many = {f"judge{index}": f"{'long' * 100}:J" for index in range(200)}
    fake_distribution("acme-judges", entry_points={"astuner.judges": many})
    command = [sys.executable, "-c", "from astuner.cli import main; main()", "plugin", "list", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    process.wait()
