"""Answers for one command, told by its name: `astuner judge` asks a paid LLM, which this machine is not to do."""

from __future__ import annotations

import click

from astuner import hookimpl
from astuner.contract.protocols import Candidate


class NoJudgeCommand:
    @hookimpl
    def astuner_make_command(self, candidate: Candidate) -> click.Command | None:
        if candidate.name != "judge":
            return None

        @click.command(context_settings={"ignore_unknown_options": True})
        @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
        def judge(arguments: tuple[str, ...]) -> None:
            """Is switched off on this machine."""
            raise click.UsageError("`astuner judge` is switched off on this machine")

        return judge
