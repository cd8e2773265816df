"""`astuner init`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from astuner.cli.output import as_json, print_json
from astuner_tools.new_projects.template import ENVIRONMENT, JUDGES, Framework, read_frameworks

EXAMPLE = """\b
Examples:
  astuner init my-agent
  astuner init my-agent --with smolagents --judge math"""


@click.command(epilog=EXAMPLE, short_help="Write a project for an agent of your own, which plays at once.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--with", "framework", type=click.Choice(list(read_frameworks())), help="What the agent is built with.")
@click.option("--judge", type=click.Choice(list(JUDGES)), help="Where the rewards come from.")
@click.option("--yes", is_flag=True, help="Do not ask: `openai` and `code`, where nothing else is given.")
@as_json
def init(directory: Path, framework: str | None, judge: str | None, yes: bool, in_json: bool) -> None:
    """Write a small project into DIR: an agent, a judge, tasks and a YAML, to be replaced by yours one by one.

    It plays at once with the backbone `debug`, without a model: a script answers. At a terminal, what is not given is asked.
    Nothing is ever overwritten.
    """
    from astuner_tools.new_projects.template import check_free, write_project

    check_free(directory)
    asks = is_terminal() and not yes and not in_json
    frameworks = read_frameworks()
    if framework is None:
        titles = {name: f"{row.title}{'' if row.is_installed else ' (not installed)'}" for name, row in frameworks.items()}
        framework = _ask("What is the agent built with?", titles) if asks else "openai"
    if framework == ENVIRONMENT and judge is not None:
        raise click.UsageError(f"--judge {judge}: an environment that leads gives the reward itself; leave --judge out")
    if judge is None:
        judge = _ask("Where do the rewards come from?", JUDGES) if asks and framework != ENVIRONMENT else "code"
    files = [directory / path for path in write_project(directory, framework, judge)]
    steps = [*_list_next_steps(directory, frameworks[framework], judge)]
    if in_json:
        print_json({"directory": directory, "files": files, "next": [step.strip() for step in steps]})
    else:
        click.echo("\n".join([*(f"  {path}" for path in files), "next:", *steps]))


def is_terminal() -> bool:
    """Whether somebody can answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def _ask(question: str, choices: Mapping[str, str]) -> str:
    width = max(map(len, choices))
    click.echo("\n".join([question, *(f"  {name:{width}}  {title}" for name, title in choices.items())]))
    answer: str = click.prompt(">", prompt_suffix=" ", type=click.Choice(list(choices)), default=next(iter(choices)))
    return answer


def _list_next_steps(directory: Path, framework: Framework, judge: str) -> Iterator[str]:
    yield f"  cd {shlex.quote(str(directory))}"
    if not framework.is_installed:
        yield f"  pip install {' '.join(map(shlex.quote, framework.packages))}"
    if judge == "llm":
        yield "  export OPENAI_API_KEY=…                       # for the judge"
    yield "  astuner run --conf tune.yaml                  # plays, without a model: replies.jsonl answers"
    yield "then set model.path in tune.yaml, and:"
    yield "  astuner run --conf tune.yaml                  # plays with the model"
    yield "  astuner run --conf tune.yaml --backbone local # trains it"
