"""`astuner replay`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astuner.cli.output import align_columns, as_json, print_json

if TYPE_CHECKING:
    from astuner_tools.replays.replay_request import ReplayRequest
    from astuner_tools.replays.report import ReplayReport, SplitReport
    from astuner_tools.replays.trained_signal import TrainingChange

MOST_IDS = 5
"""Episodes or groups of a kind that are named."""

EXAMPLE = """\b
Examples:
  astuner replay my-experiment --conf stricter.yaml
  astuner replay my-experiment --conf tune.yaml --judge ./exact.py:ExactAnswer --split validation
  astuner replay my-experiment --conf tune.yaml --set task_judge.judge_type=llm --step 20 --out replays/llm
  astuner replay my-experiment --conf stricter.yaml --train-from 20 --out launcher_record/stricter"""


@click.command(epilog=EXAMPLE, short_help="Score the stored episodes of a run again, by other judges.")
@click.argument("run")
@click.option("--conf", required=True, type=click.Path(path_type=Path), help="The YAML with the new judges and their weights.")
@click.option("--judge", metavar="NAME", help="This judge alone: one of the YAML's `judges`, an installed one, or FILE.py:CLASS.")
@click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Override one key of the YAML; repeatable.")
@click.option("--split", type=click.Choice(["train", "validation"]), help="Only these episodes.")
@click.option("--step", type=int, help="Only those of a training step; with --split validation, of the validation after it.")
@click.option("--out", type=click.Path(path_type=Path), help="Where the new verdicts go; RUN/replays/EXPERIMENT_NAME by default.")
@click.option(
    "--train-from",
    type=click.IntRange(min=0),
    metavar="STEP",
    help="Then train on from the run's checkpoint of STEP (0: from model.path) with the new rewards, in the same directory.",
)
@as_json
def replay(
    run: str,
    conf: Path,
    judge: str | None,
    overrides: tuple[str, ...],
    split: str | None,
    step: int | None,
    out: Path | None,
    train_from: int | None,
    in_json: bool,
) -> int:
    """Score the stored episodes of RUN again, by the judges of another YAML.

    Reports how the rewards differ, what would have been trained, and what the judges cost. Nothing is played, so no engine, model
    or agent is needed, unless --train-from trains on. The files of RUN stay as they are. An earlier replay in the same place is
    replaced.

    RUN is a run directory, or the name of one in launcher_record; it may be running.
    """
    from typing import cast

    from astuner.contract.errors import RunFailed
    from astuner.runs.driver.control import unwind_on_sigterm
    from astuner.runs.inspection.run_search import open_run
    from astuner_tools.replays.replay import replay_run
    from astuner_tools.replays.replay_request import ReplayRequest

    def warn(text: str) -> None:
        click.echo(f"warning: {text}", err=True)

    problems: list[str] = []

    def report_problem(text: str) -> None:
        problems.append(text)
        warn(text)

    request = ReplayRequest(
        run=open_run(run, report_problem),
        conf=conf,
        overrides=overrides,
        judge=judge,
        out=out,
        split=cast("Any", split),
        step=step,
    )
    if train_from is not None:
        _check_training(request, train_from)
    with unwind_on_sigterm():
        found = replay_run(request, notify=warn, progress=_show_progress if sys.stderr.isatty() else lambda done, total: None)
    if not in_json:
        click.echo("\n\n".join(_format_parts(found)))
    if found.over_budget and not in_json:
        raise RunFailed("; ".join(found.over_budget))
    if train_from is not None and not found.over_budget:
        from astuner_tools.replays.training_on_replay import train_on

        click.echo(train_on(request, found.directory, train_from).format_end(), err=True)
    if in_json:
        print_json({**found.to_json(), "problems": problems})
    return RunFailed.exit_code if found.over_budget else 0


def _check_training(request: ReplayRequest, train_from: int) -> None:
    from astuner.cli.own_venv import enter_venv_of
    from astuner_tools.replays.training_on_replay import check_start, refuse_choices

    refuse_choices(request)
    enter_venv_of(request.conf, request.overrides, None)
    check_start(request, train_from)


def _show_progress(done: int, total: int) -> None:
    click.echo(f"\r{done} of {total} groups" + "\n" * (done == total), err=True, nl=False)


def _format_parts(found: ReplayReport) -> Iterator[str]:
    for split in found.splits:
        yield "\n".join(_format_split(split))
        if split.training is not None:
            yield _format_training(split.training)
    yield "\n".join(_format_cost(found))


def _format_split(split: SplitReport) -> Iterator[str]:
    one = split.agreement
    counts = (_count(one.episodes, "episode"), _count(one.groups, "group"), _count(split.steps, "step"))
    yield f"{split.split}: {' in '.join(counts)}"
    both = _count(one.equal + one.different, "episode")
    yield f"  agreement  {_format_share(one.agreement)} of {both} that both judged: {one.equal} equal, {one.different} not"
    shares = [f"{some} of {one.episodes}" for some in (one.stored_rewarded, one.new_rewarded)]
    means = f"{_format_number(one.stored_reward)} -> {_format_number(one.new_reward)}"
    is_partial = min(one.stored_rewarded, one.new_rewarded) < one.episodes
    yield f"  mean       {means}" + (f" (of {shares[0]} -> {shares[1]} episodes)" if is_partial else "")
    if one.gained or one.lost:
        reasons = ", ".join(f"{count} x {reason}" for reason, count in one.lost_reasons.items())
        yield f"  rewards    {len(one.gained)} gained, {len(one.lost)} lost" + (f" ({reasons})" if reasons else "")
    for reason, count in one.judge_failures.items():
        yield f"  judge      {count} x {reason}, first in {one.judge_failure_examples[reason]}"
    if one.success_agreement is not None:
        yield f"  success    equal in {_format_share(one.success_agreement)}"
        yield from _format_ids("success -> failure", one.to_failure)
        yield from _format_ids("failure -> success", one.to_success)
    yield f"  siblings   {one.pairs_reversed} of {one.pairs} pairs in the other order, {one.pairs_tied} now equal"
    yield from _format_ids("best and worst change places", one.swapped)
    yield from _format_ids("groups that gain a difference of rewards", one.signal_gained)
    yield from _format_ids("groups that lose it", one.signal_lost)


def _format_training(change: TrainingChange) -> str:
    from attrs import asdict

    stored, new = asdict(change.stored), asdict(change.new)
    rows = [(f"  {name.replace('_', ' ')}", f"{stored[name]:,}", f"{new[name]:,}") for name in stored]
    table = align_columns([("what is trained", "STORED", "NEW"), *rows])
    changed = (
        f"  {change.samples_changed:,} samples have another advantage; of {change.tokens_reversed:,} tokens it has the other sign"
    )
    return f"{table}\n{changed}"


def _format_cost(found: ReplayReport) -> Iterator[str]:
    spent = found.usage
    asked = (
        f", {spent.requests:,} requests to an LLM and {spent.cached:,} answers from its cache"
        if spent.requests + spent.cached
        else ""
    )
    tokens = spent.prompt_tokens + spent.completion_tokens
    yield f"judged in {found.judging_s:.1f} s{asked}" + (f", {tokens:,} tokens, cost {spent.cost:g}" if tokens else "")
    directory = found.directory.relative_to(Path.cwd()) if found.directory.is_relative_to(Path.cwd()) else found.directory
    failed = any(split.agreement.judge_failures for split in found.splits)
    typed = shlex.quote(str(directory))
    yield f"the episodes with their new rewards: astuner episodes {typed}"
    if failed:
        yield f"what the judge failed on, with tracebacks: astuner episodes {typed} --failed"


def _format_ids(what: str, ids: Sequence[str]) -> Iterator[str]:
    if ids:
        more = f" and {len(ids) - MOST_IDS} more, all with --json" if len(ids) > MOST_IDS else ""
        yield f"    {what}: {len(ids)} ({', '.join(ids[:MOST_IDS])}{more})"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _format_share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _format_number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
