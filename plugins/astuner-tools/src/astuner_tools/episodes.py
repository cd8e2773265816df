"""`astuner episodes`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from astuner.cli.output import as_json

if TYPE_CHECKING:
    from astuner.contract.schema import Episode, Split
    from astuner.runs.inspection.run import Run
    from astuner.runs.store.episode_index import EpisodeIndex

LONGEST_MESSAGE = 2000
"""Characters of a message that are shown without `--full`."""

EXAMPLE = """\b
Examples:
  astuner episodes my-experiment --step 20 --highest 1 --lowest 1
  astuner episodes my-experiment --split validation --failed
  astuner episodes my-experiment --min-reward 1 --demos demos.jsonl"""


@click.command(epilog=EXAMPLE)
@click.argument("run")
@click.option("--step", type=int, help="Those of a training step; of a validation, the steps that were trained before it.")
@click.option("--task", metavar="ID", help="Those of a task.")
@click.option("--failed", is_flag=True, help="Those that failed, or that the judge failed on.")
@click.option("--grep", metavar="TEXT", help="Those with this text in a line of their transcript.")
@click.option("--lowest", metavar="K", type=click.IntRange(min=1), help="The K with the lowest rewards, from the lowest.")
@click.option("--highest", metavar="K", type=click.IntRange(min=1), help="The K with the highest rewards, from the highest.")
@click.option("--min-reward", metavar="R", type=float, help="Those with this reward or more.")
@click.option("--split", type=click.Choice(["train", "validation"]), help="`train`, unless the run only validates.")
@click.option("--demos", type=click.Path(path_type=Path), help="Write them to this file, as `astuner warm-start` reads it.")
@click.option("--full", is_flag=True, help="Do not shorten long messages.")
@as_json
def episodes(
    run: str,
    step: int | None,
    task: str | None,
    failed: bool,
    grep: str | None,
    lowest: int | None,
    highest: int | None,
    min_reward: float | None,
    split: str | None,
    demos: Path | None,
    full: bool,
    in_json: bool,
) -> None:
    """Show the episodes of RUN: the conversations, what was trained, and the rewards.

    RUN is a run directory, or the name of one in launcher_record. It may be running, and nothing in it is changed.
    """
    from typing import cast

    from astuner.runs.inspection.run_search import open_run
    from astuner.runs.inspection.selection import Selection

    selection = Selection(step=step, task=task, failed=failed, min_reward=min_reward, grep=grep, lowest=lowest, highest=highest)
    problems: list[str] = []
    opened = open_run(run, problems.append)
    index = opened.index_episodes(cast("Split | None", split), step)
    found = opened.select(index, selection)
    if demos is not None:
        from astuner.settings.plugins.functions import load_function

        write = load_function("write_demonstrations", "--demos: what makes demonstrations of episodes")
        for line in (*write(demos, found), *problems):
            click.echo(line, err=True)
        return
    shown = _print_json(opened, index, found, problems) if in_json else _print_transcripts(opened, index, found, full=full)
    for problem in problems:
        click.echo(f"warning: {problem}", err=True)
    if not in_json:
        which = "" if step is None else f" of step {step}"
        click.echo(f"{shown} of {len(index)} episodes{which} in {index.path}", err=True)


def _print_transcripts(run: Run, index: EpisodeIndex, episodes: Iterator[Episode], *, full: bool) -> int:
    from astuner.episodes.transcript.episode_text import Details, format_transcript
    from astuner.episodes.transcript.terminal_text import Page

    page = Page.of(sys.stdout, longest=None if full else LONGEST_MESSAGE)
    tokenizer = run.find_tokenizer()
    details = Details(decode=tokenizer.decode if tokenizer is not None else None, full_text_in=index.path)
    count = 0
    for episode in episodes:
        count += 1
        click.echo(format_transcript(episode, tokens=details, page=page), color=page.colour)
    return count


def _print_json(run: Run, index: EpisodeIndex, episodes: Iterator[Episode], problems: list[str]) -> int:
    """Print one document, an episode at a time: a store may be larger than the memory."""
    from astuner.runs.store.codec import dump_episode

    stream = click.get_current_context().find_root().obj
    head = json.dumps({"run": str(run.path.absolute()), "file": str(index.path.absolute())}, ensure_ascii=False)
    click.echo(f'{head[:-1]}, "episodes": [', stream, nl=False)
    count = 0
    for episode in episodes:
        count += 1
        derived = {"completed": episode.completed, "reward": episode.reward, "is_success": episode.is_success}
        line = json.dumps({**dump_episode(episode), **derived}, ensure_ascii=False)
        click.echo("," * (count > 1) + "\n" + line, stream, nl=False)
    click.echo(f'\n], "problems": {json.dumps(problems, ensure_ascii=False)}}}', stream)
    return count
