"""`astuner config`: whether a configuration is right, and what it amounts to."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from astuner.errors import AstunerError, ConfigError, Problem

F = TypeVar("F", bound=Callable[..., Any])


def _of_a_configuration(command: F) -> F:
    """Add the options that choose a configuration, and `--json`."""
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    for option in (
        click.option("--json", "in_json", is_flag=True, help="One JSON document on stdout."),
        click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Set one key; may be repeated."),
        click.option("--backbone", metavar="NAME", help="Use this backbone, whatever the file says."),
        click.option("--conf", type=file, required=True, help="The YAML of the run."),
    ):
        command = option(command)
    return command


@click.group()
def config() -> None:
    """Check and show a configuration."""


@config.command()
@_of_a_configuration
def validate(conf: Path, backbone: str | None, overrides: Sequence[str], in_json: bool) -> int:
    """Check every key, every component that is named, and what the backbone honours. Nothing is started."""
    from astuner.runs.plan import plan_run

    try:
        notices = plan_run(conf, overrides, backbone).notices
    except AstunerError as error:
        if not in_json:
            raise
        problems = error.problems if isinstance(error, ConfigError) else (Problem(message=str(error)),)
        _print_json({"valid": False, "problems": [_problem(problem) for problem in problems], "notices": []})
        return error.exit_code
    if in_json:
        _print_json({"valid": True, "problems": [], "notices": list(notices)})
    else:
        for notice in notices:
            click.echo(notice, err=True)
        click.echo(f"{conf}: valid")
    return 0


@config.command()
@_of_a_configuration
def show(conf: Path, backbone: str | None, overrides: Sequence[str], in_json: bool) -> None:
    """Print the whole configuration: defaults, file and --set, interpolations resolved, secrets left out."""
    from astuner.config.loading import load_config
    from astuner.config.show import to_yaml

    text = to_yaml(load_config(conf, overrides, backbone))
    if in_json:
        import yaml  # type: ignore[import-untyped,unused-ignore]  # its stubs are a distribution of their own

        _print_json(yaml.safe_load(text))
    else:
        click.echo(text, nl=False)


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "key": problem.key,
        "message": problem.message,
        "suggestion": problem.suggestion,
        "file": str(problem.file) if problem.file else None,
        "line": problem.line,
    }


def _print_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
