"""`astuner config validate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from astuner.cli.config_options import add_config_options
from astuner.cli.output import print_json
from astuner.errors import AstunerError, ConfigError, Problem


@click.command()
@add_config_options
def validate(conf: Path, backbone: str | None, overrides: Sequence[str], in_json: bool) -> int:
    """Check every key and every named component, and that the backbone acts on each key. Nothing is started."""
    from astuner.planning.plan import plan_run

    try:
        notices = plan_run(conf, overrides, backbone).notices
    except AstunerError as error:
        if not in_json:
            raise
        problems = error.problems if isinstance(error, ConfigError) else (Problem(message=str(error)),)
        print_json({"valid": False, "problems": [_problem_to_dict(problem) for problem in problems], "notices": []})
        return error.exit_code
    if in_json:
        print_json({"valid": True, "problems": [], "notices": list(notices)})
    else:
        for notice in notices:
            click.echo(notice, err=True)
        click.echo(f"{conf}: valid")
    return 0


def _problem_to_dict(problem: Problem) -> dict[str, Any]:
    return {
        "key": problem.key,
        "message": problem.message,
        "suggestion": problem.suggestion,
        "file": str(problem.file) if problem.file else None,
        "line": problem.line,
    }
