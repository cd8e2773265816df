"""`astuner judge`: trying a judge on labelled examples, and letting one learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from astuner.cli.output import as_json, print_json

if TYPE_CHECKING:
    from astuner.settings.config.sections import FileSplit
    from astuner_judges.evaluation.configured_judges import ConfiguredJudge, JudgeSetup
    from astuner_judges.evaluation.judged_rows import JudgedRow
    from astuner_judges.evaluation.labelled import Fields, LabelledExample
    from astuner_judges.evaluation.report import Report

F = TypeVar("F", bound=Callable[..., Any])


def _add_judge_options(command: F) -> F:
    """Add the options that choose a YAML and a judge, and `--json`."""
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    for option in (
        as_json,
        click.option("--judge", "name", metavar="NAME", help="Use only this judge, if the file names several."),
        click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Override one key of the YAML; repeatable."),
        click.option("--conf", type=file, required=True, help="The YAML that names the judge under task_judge."),
    ):
        command = option(command)
    return command


@click.group("judge")
def judge() -> None:
    """Measure a judge on labelled examples, or let it learn from them."""


EVALUATE_EXAMPLE = """\b
Example:
  astuner judge eval --conf judge.yaml --examples labelled.jsonl"""


@judge.command("eval", epilog=EVALUATE_EXAMPLE)
@_add_judge_options
@click.option(
    "--examples",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="Labelled answers: a file in a format that the reader dataset_file reads.",
)
@click.option(
    "--answer-field", default="final_answer", show_default=True, help="Field of a row, and of an output, that holds the answer."
)
@click.option("--label-field", default="score", show_default=True, help="Field that holds the label.")
@click.option(
    "--reference-field",
    default="answer",
    show_default=True,
    help="Field that holds the right answer; rows with different right answers are different tasks.",
)
@click.option("--candidates-field", default="candidates", show_default=True, help="Field that holds several answers.")
@click.option(
    "--rank-field", default="rank", show_default=True, help="Field of each of several answers that holds its rank; 1 is the best."
)
@click.option(
    "--columns",
    multiple=True,
    metavar="FIELD=NAME",
    help="Read a field from this column, for example main_query=problem; repeatable.",
)
@click.option("--json-columns", multiple=True, metavar="NAME", help="Parse the text of this column as JSON; repeatable.")
@click.option(
    "--threshold",
    type=float,
    help="Lowest label of a good answer; by default the judge's success_threshold, or halfway between the labels.",
)
@click.option("--success-reward", type=float, help="Lowest reward of a success, for verdicts that do not set `success`.")
@click.option("--limit", type=click.IntRange(min=1), help="Use only the first N rows.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write each answer with its label and verdict to this file, as JSON lines; those that the judge got wrong come first.",
)
@click.option(
    "--both-orders/--one-order",
    default=True,
    show_default=True,
    help="Whether to judge siblings a second time, in reverse order.",
)
def evaluate(
    conf: Path,
    overrides: tuple[str, ...],
    name: str | None,
    in_json: bool,
    examples: Path,
    answer_field: str,
    label_field: str,
    reference_field: str,
    candidates_field: str,
    rank_field: str,
    columns: tuple[str, ...],
    json_columns: tuple[str, ...],
    threshold: float | None,
    success_reward: float | None,
    limit: int | None,
    out: Path | None,
    both_orders: bool,
) -> int:
    """Measure how well a judge agrees with labels.

    Prints accuracy, kappa, rank correlation, biases, failures and cost, and some answers that it got wrong.

    A row holds a question, an answer and its label (a score, true or false, right or wrong), or several answers with ranks, or
    a chosen and a rejected answer. The judge gets rows of the same task together. Exits with 1 if no answer was judged.
    """
    from astuner.settings.config.sections import FileSplit
    from astuner_judges.evaluation.configured_judges import load_judges
    from astuner_judges.evaluation.judged_rows import format_jsonl, format_wrong_rows
    from astuner_judges.evaluation.labelled import Fields
    from astuner_judges.evaluation.table import format_table, list_warnings

    chosen = load_judges(conf, overrides, name)
    fields = Fields(
        answer=answer_field,
        reference=reference_field,
        reference_alone=False,
        label=label_field,
        candidates=candidates_field,
        rank=rank_field,
        bounded=False,
    )
    split = FileSplit(file_path=str(examples.resolve()), columns=_parse_columns(columns), json_columns=json_columns, limit=limit)
    rows = _read(split, fields)
    bounds = threshold, success_reward
    with chosen.loaded.secrets.hide_in_errors():
        found = [_evaluate_judge(chosen, one, rows, fields, bounds, both_orders) for one in chosen.judges]
    reports = [report for report, _ in found]
    if out is not None:
        from astuner.runs.store.atomic import write_bytes

        out.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(format_jsonl(some, chosen.loaded.secrets.hide) for _, some in found)
        # A lone surrogate of an answer becomes its escape in JSON.
        write_bytes(out, text.encode(errors="backslashreplace"), private=False)
    if in_json:
        print_json({"judges": [report.as_json() for report in reports]})
    else:
        parts = (part for report, some in found for part in (format_table(report), format_wrong_rows(some)) if part)
        click.echo(chosen.loaded.secrets.hide("\n\n".join(parts)))
    for report in reports:
        for warning in list_warnings(report):
            click.echo(chosen.loaded.secrets.hide(f"warning: {warning}"), err=True)
    return 0 if all(report.judged for report in reports) else 1


LEARN_EXAMPLE = """\b
Example:
  astuner judge learn --conf judge.yaml"""


@judge.command("learn", epilog=LEARN_EXAMPLE)
@_add_judge_options
@click.option("--again", is_flag=True, help="Learn again, and replace existing rubrics.")
def learn(conf: Path, overrides: tuple[str, ...], name: str | None, in_json: bool, again: bool) -> None:
    """Let a judge learn from labelled examples.

    Otherwise the first run does so.
    """
    from astuner.contract.errors import UsageError
    from astuner.settings.plugins.drivers import load
    from astuner_judges.evaluation.configured_judges import load_judges

    chosen = load_judges(conf, overrides, name)
    able = [one for one in chosen.judges if callable(getattr(load(one.candidate), "learn", None))]
    if not able:
        names = ", ".join(one.name for one in chosen.judges)
        raise UsageError(f"{conf}: none of its judges ({names}) learns from examples; rubrics_auto_grader does")
    with chosen.loaded.secrets.hide_in_errors():
        found = [load(one.candidate).learn(one.options, chosen.run_info, again=again) for one in able]
    told = [
        {"judge": one.name, "file": kept.path, "themes": len(kept.held.themes), "learnt_now": kept.learnt_now}
        for one, kept in zip(able, found, strict=True)
    ]
    if in_json:
        print_json({"judges": told})
    else:
        for one in told:
            state = "learnt" if one["learnt_now"] else "there already"
            click.echo(f"{one['judge']}  {one['themes']} themes, {state}  {one['file']}")


def _parse_columns(columns: Sequence[str]) -> dict[str, str]:
    from astuner.contract.errors import UsageError

    wrong = next((text for text in columns if not all(text.partition("="))), None)
    if wrong is not None:
        raise UsageError(f"--columns {wrong}: it is FIELD=NAME, as main_query=problem: what is taken from which column")
    return {field: name for field, _, name in (text.partition("=") for text in columns)}


def _read(split: FileSplit, fields: Fields) -> list[LabelledExample]:
    from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
    from astuner.settings.config.sections import DatasetFileSection
    from astuner_judges.evaluation.joining import join
    from astuner_judges.evaluation.labelled import read_examples

    reader = DatasetFileReader(DatasetFileSection(training=split), Path(split.file_path).parent)
    return join(read_examples(reader.read("train"), fields))


def _evaluate_judge(
    chosen: JudgeSetup,
    one: ConfiguredJudge,
    rows: Sequence[LabelledExample],
    fields: Fields,
    bounds: tuple[float | None, float | None],
    both_orders: bool,
) -> tuple[Report, list[JudgedRow]]:
    import asyncio

    from astuner.settings.plugins.hooks import Hooks
    from astuner_judges.evaluation.judged_rows import list_rows
    from astuner_judges.evaluation.judging import ask
    from astuner_judges.evaluation.limits import find_limits
    from astuner_judges.evaluation.report import report_on

    hooks = Hooks(chosen.catalog, options=chosen.run_info.config.plugins.options)
    hooks.check_pending()
    made = hooks.make_judge(one.candidate, one.options, chosen.run_info)

    async def ask_judge() -> Any:
        try:
            return await ask(made, rows, fields.answer, both_orders=both_orders)
        finally:
            await made.close()

    judged = asyncio.run(ask_judge())
    budget = getattr(made, "budget", None)
    limits = find_limits(judged, threshold=bounds[0], success_reward=bounds[1], options=one.options)
    report = report_on(
        one.name,
        judged,
        limits=limits,
        seed=chosen.run_info.seed,
        learnt_from=getattr(made, "learnt_from", ()),
        spent=None if budget is None else budget.spent,
    )
    return report, list_rows(one.name, judged, limits)
