"""The contract of commands: `astuner NAME`, as click commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import click
from click.testing import CliRunner

from astuner.contract.protocols import Candidate
from astuner.settings.plugins.core_commands import find_lost_group
from astuner_devkit.contracts.base import Contract, self_contained


class CommandContract(Contract):
    """Rules for commands."""

    kind = "command"
    name: ClassVar[str | None] = None
    """The entry point's name; None takes the installed one, if any."""

    @classmethod
    def candidate(cls) -> Candidate:
        """Return the command as the catalog describes it, or by its own name."""
        found, target = super().candidate(), cls.target()
        if found.source == "entry_point" or not isinstance(target, click.Command):
            return found
        module = getattr(target.callback, "__module__", type(target).__module__)
        return Candidate(kind=cls.kind, name=target.name or "?", target=f"{module}:{target.name}", source="path")

    @self_contained
    def test_it_is_a_click_command(self) -> None:
        """The entry point names a click command or group: the object that `@click.command()` leaves behind."""
        target = self.target()
        assert isinstance(target, click.Command), (
            f"{self._blame} is {target!r:.80}, but a click command is expected: decorate it with `@click.command()`"
        )

    @self_contained
    def test_it_says_what_it_does(self) -> None:
        """The command and each command below it have a help text, whose first sentence is shown in the list of commands."""
        for path, command in _commands(self.target()):
            said = (command.help or command.short_help or "").strip()
            assert said, f"{self._blame}: `{path}` has no help: write a docstring under its function"

    @self_contained
    def test_help_is_answered(self) -> None:
        """`--help` prints the usage and ends with exit code 0, for the command and each command below it."""
        for path, command in _commands(self.target()):
            result = CliRunner().invoke(command, ["--help"], prog_name=f"astuner {path}")
            why = f"{type(result.exception).__name__}: {result.exception}" if result.exception else result.output
            assert result.exit_code == 0, (
                f"{self._blame}: `{path} --help` ended with exit code {result.exit_code} ({why.strip()[-200:]}): "
                "do nothing before the options are read, and keep the option --help"
            )
            assert "Usage:" in result.output, (
                f"{self._blame}: `{path} --help` printed {result.output[:200]!r} without a usage line"
            )

    @self_contained
    def test_its_name_is_the_entry_points(self) -> None:
        """The command has the name of its entry point, so that its usage and messages match what a user typed.

        That of `config.import` is `import`: the part before the dot is a group of core.
        """
        target, candidate = self.target(), self.candidate()
        entry = self.name or (candidate.name if candidate.source == "entry_point" else None)
        if entry is None or not isinstance(target, click.Command):
            return
        lost, expected = find_lost_group(entry), entry.rpartition(".")[2]
        assert lost is None, f"{candidate.blame}: astuner-core has no group of commands '{lost}' that others add to"
        assert target.name == expected, (
            f"{candidate.blame} calls itself {target.name!r}, its entry point {expected!r}: write `@click.command({expected!r})`"
        )


def _commands(command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and all below it, each with what a user types."""
    pending = [(command.name or "", command)]
    while pending:
        path, current = pending.pop(0)
        yield path, current
        if isinstance(current, click.Group):
            context = click.Context(current)
            below = [(name, current.get_command(context, name)) for name in current.list_commands(context)]
            pending += [(f"{path} {name}", found) for name, found in below if found is not None]
