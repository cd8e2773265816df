"""`astuner config import`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import asdict

from astuner.cli.output import align_columns, as_json, print_json
from astuner.contract.errors import UsageError

if TYPE_CHECKING:
    from astuner.settings.config.importers import Answer
    from astuner_tools.config_import.importing import Imported

EXAMPLE = """\b
Example:
  astuner config import train.yaml --from trainer --out tune.yaml"""


@click.command("import", epilog=EXAMPLE, short_help="Translate the configuration of another trainer.")
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--from", "origin", required=True, help="The trainer that it is written for; a wrong name lists those there are.")
@click.option("--out", "target", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The YAML to write.")
@click.option("--force", is_flag=True, help="Replace the YAML if it is there.")
@as_json
def import_(source: Path, origin: str, target: Path, force: bool, in_json: bool) -> None:
    """Translate another trainer's configuration: a YAML, or a shell script that sets its keys.

    Each key arrives under our name, stays below the backbone's own root, or is left out with the reason. If the source
    names no agent that runs here, agent.py with a small one is written beside the YAML.
    """
    from astuner.runs.store.atomic import write_text
    from astuner_tools.config_import.agent_file import AGENT_FILE
    from astuner_tools.config_import.importing import import_config

    target = target.absolute()
    agent = target.parent / AGENT_FILE
    if target.exists() and not force:
        raise UsageError(f"--out {target}: it exists. Choose another name, or give --force to replace it.")
    if not target.parent.is_dir():
        raise UsageError(f"--out {target}: there is no directory {target.parent}")
    imported = import_config(source, origin, target)
    is_kept = agent.exists()
    if imported.agent is not None and not is_kept:
        write_text(agent, imported.agent, private=False)
    # The last one: it names the agent.
    write_text(target, imported.text, private=False)
    if in_json:
        print_json(
            {
                "answers": [asdict(answer) for answer in imported.answers],
                "problems": [asdict(problem) for problem in imported.open_problems],
                "is_unchecked": imported.is_unchecked,
                "file": target,
            }
        )
        return
    click.echo("\n".join(_format_lines(imported)))
    if imported.agent is not None and is_kept:
        click.echo(f"Kept {agent}, which was there: the YAML takes `Agent` and `compute_reward` from it.")
    elif imported.agent is not None:
        click.echo(
            f"Wrote {agent}: one call for each task, and an exact comparison. Put your agent and your reward in their place."
        )
    click.echo(f"Wrote {target}. Next: astuner config validate --conf {shlex.quote(str(target))}")


def _format_lines(imported: Imported) -> list[str]:
    words = {"translated": "", "ignored": "not needed: ", "dropped": "left out: "}
    rows = [(answer.key, words[answer.kind] + _describe(answer)) for answer in imported.answers]
    counts = {kind: sum(answer.kind == kind for answer in imported.answers) for kind in words}
    lines = [align_columns([("KEY", "HERE"), *rows]), ""]
    arrived, ignored, dropped = counts["translated"], counts["ignored"], counts["dropped"]
    lines.append(f"{len(rows)} keys: {arrived} arrived, {ignored} not needed, {dropped} left out.")
    if imported.is_unchecked:
        lines.append("The trainer is not installed here: it has not checked the keys that stay its own.")
    if imported.open_problems:
        lines += ["To be done:", *(f"  {problem}" for problem in imported.open_problems)]
    return lines


def _describe(answer: Answer) -> str:
    if answer.kind != "translated":
        return answer.reason
    return ", ".join(answer.keys) + (f" ({answer.reason})" if answer.reason else "")
