"""`astuner trace import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from astuner.cli.output import as_json

EXAMPLE = """\b
Example:
  astuner trace import traces.jsonl --out train.jsonl --validation-out validation.jsonl --validation-fraction 0.1"""


@click.command("import", epilog=EXAMPLE)
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The data set to write, as JSON lines."
)
@click.option("--validation-out", type=click.Path(path_type=Path, dir_okay=False), help="The validation data set to write.")
@click.option(
    "--validation-fraction", type=click.FloatRange(0, 1, max_open=True), help="Share of the conversations that go to validation."
)
@click.option(
    "--validation-after",
    metavar="TIME",
    help="In place of a fraction: conversations with a turn from this time on go to validation.",
)
@click.option(
    "--validation-by",
    type=click.Choice(["conversation", "task"]),
    default="conversation",
    show_default=True,
    help="What is kept together; with `task`, the turns of one conversation may be split.",
)
@click.option("--project", help="Read only this project of Phoenix; all by default.")
@click.option("--agent", "agents", multiple=True, help="Keep only turns of this agent; repeatable.")
@click.option("--min-score", type=float, help="Leave out turns that users scored lower.")
@click.option("--max-score", type=float, help="Leave out turns that users scored higher.")
@click.option("--label", "labels", multiple=True, help="Of the turns that users labelled, keep only this label; repeatable.")
@click.option("--with-feedback", is_flag=True, help="Leave out turns without feedback from a user.")
@click.option("--similarity", type=click.FloatRange(0, 1, min_open=True), help="Of questions at least this similar, keep one.")
@click.option("--keep-duplicates", is_flag=True, help="Keep repeated questions.")
@click.option(
    "--llm-evaluate",
    is_flag=True,
    help="Let an LLM decide which turns are good tasks; its address and key come from environment variables.",
)
@click.option(
    "--rubrics",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A file with further reasons for the LLM to reject a task.",
)
@click.option("--llm", "llm_model", help="The name of the LLM.")
@click.option("--llm-cache", help="The file that caches the LLM's answers; next to the data set by default.")
@click.option("--no-system-prompt", is_flag=True, help="Leave the recorded system prompt out of the tasks.")
@click.option("--keep-unanswered", is_flag=True, help="Keep turns without an answer.")
@click.option("--limit", type=click.IntRange(min=1), help="Keep only the first N tasks of each data set.")
@as_json
def import_(sources: tuple[str, ...], out: Path, validation_out: Path | None, in_json: bool, **given: Any) -> None:
    """Make a data set from traces.

    A SOURCE is an OTLP file, a database of AgentScope Studio or Phoenix, or the address of a Phoenix server.
    """
    import os

    from astuner.cli.output import print_json
    from astuner_tracing.filters.llm_evaluate import LlmAccess
    from astuner_tracing.importing import Destinations, format_lines, import_tasks, list_cautions

    options = _options(sources, validation_out, given)
    asking = LlmAccess(
        model=options.alien_llm_model,
        max_tokens=options.alien_llm_response_length,
        config_dir=Path.cwd(),
        environ=os.environ,
        say=lambda text: click.echo(text, err=True),
        cache=out.with_suffix(".verdicts.sqlite"),
    )
    to = Destinations(train=(out,), validation=(validation_out,) if validation_out is not None else ())
    tally = import_tasks(options, asking, to)
    if in_json:
        print_json({**tally.as_json(), "files": {"train": out, **({"validation": validation_out} if validation_out else {})}})
    else:
        for line in format_lines(tally):
            click.echo(line)
    for text in list_cautions(options, tally):
        click.echo(f"warning: {text}", err=True)


def _options(sources: tuple[str, ...], validation_out: Path | None, given: dict[str, Any]) -> Any:
    from astuner.contract.errors import UsageError
    from astuner.settings.config.structuring import structure_options
    from astuner_tracing.options import TracingOptions

    _check_used(given)
    rule = given["validation_fraction"] or given["validation_after"]
    if bool(rule) != (validation_out is not None):
        raise UsageError(
            "--validation-out needs a rule (--validation-fraction or --validation-after), and a rule needs --validation-out"
        )
    values = {
        "sources": list(sources),
        "project": given["project"],
        "agents": list(given["agents"]),
        "keep_system_prompt": not given["no_system_prompt"],
        "require_answer": not given["keep_unanswered"],
        "filters": _filters(given),
        "validation_fraction": given["validation_fraction"] or 0.0,
        "validation_after": given["validation_after"],
        "validation_by": given["validation_by"],
        "limit": given["limit"],
    }
    return structure_options(TracingOptions, values, key="astuner trace import", locate=lambda key: None)


def _check_used(given: dict[str, Any]) -> None:
    """Raise `UsageError` for an argument that has no effect because of another."""
    from astuner.contract.errors import UsageError

    asking = {"--rubrics": given["rubrics"], "--llm": given["llm_model"], "--llm-cache": given["llm_cache"]}
    idle = [name for name, value in asking.items() if value is not None]
    if idle and not given["llm_evaluate"]:
        raise UsageError(f"{', '.join(idle)} without --llm-evaluate: no LLM is asked; add --llm-evaluate, or leave it out")
    if given["similarity"] is not None and given["keep_duplicates"]:
        raise UsageError("--similarity leaves out what --keep-duplicates keeps; keep one of the two")
    if given["validation_by"] == "task" and not (given["validation_fraction"] or given["validation_after"]):
        raise UsageError(
            "--validation-by task without a rule: nothing is for validation; add --validation-fraction or --validation-after"
        )


def _filters(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the filters that the arguments ask for: the cheap ones first, and the LLM last."""
    filters: list[dict[str, Any]] = []
    feedback = {
        "min_score": given["min_score"],
        "max_score": given["max_score"],
        "labels": list(given["labels"]),
        "required": given["with_feedback"],
    }
    if any(value not in (None, [], False) for value in feedback.values()):
        filters.append({"type": "feedback", "params": feedback})
    if not given["keep_duplicates"]:
        filters.append({"type": "deduplication", "params": {"similarity_threshold": given["similarity"]}})
    if given["llm_evaluate"]:
        rubrics = given["rubrics"].read_text(encoding="utf-8") if given["rubrics"] else ""
        llm = {"model_name": given["llm_model"], "cache": given["llm_cache"]}
        filters.append({"type": "llm_evaluate", "params": {"custom_rubrics": rubrics, "llm": llm}})
    return filters
