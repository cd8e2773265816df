"""The report of the quickstart: numbers before and after, two episodes as text, and what to try next."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from statistics import fmean
from textwrap import indent

from astuner.contract.schema import Episode, Group
from astuner.episodes.transcript.episode_text import format_transcript

SHOWN_EPISODES = 2

Row = tuple[str, str, str]


def report(
    before: Sequence[Group],
    after: Sequence[Group],
    *,
    title: str,
    step: int,
    project: Path,
    run: Path,
    viewers: Sequence[str] = (),
    run_viewers: Sequence[str] = (),
) -> str:
    """Return the text; `before` and `after` are the groups of the two validations, and the paths are shown as given.

    `title` says what the validation was, and `step` is one whose episodes are worth a look. `viewers` are commands, typed in the
    project, that show what the loggers have written; `run_viewers` show a run, whose directory is typed after them.
    """
    shown = _relative_to(run, project)
    browsers = [(f"{command} {shown}", "every step, group, episode and token, in a browser") for command in run_viewers]
    browsers += [(command, "the curves of all runs, in a browser") for command in viewers]
    worst = (f"astuner episodes {shlex.quote(run.name)} --step {step} --lowest 1", f"the worst episode of step {step}")
    return "\n".join(
        [title, *_numbers(before, after), "", *_episodes(before, after), _next_steps(project, run, [*browsers, worst])]
    )


def _numbers(before: Sequence[Group], after: Sequence[Group]) -> Iterator[str]:
    rows = [("", "before", "after"), *_rows(_list_episodes(before), _list_episodes(after))]
    for name, *columns in rows:
        yield f"  {name:<24}" + "".join(f"{column:>9}" for column in columns)


def _rows(before: Sequence[Episode], after: Sequence[Episode]) -> Iterator[Row]:
    measures: list[tuple[str, Callable[[Sequence[Episode]], str]]] = [
        ("tasks solved", lambda episodes: f"{sum(bool(e.is_success) for e in episodes)}/{len(episodes)}"),
        ("mean reward", lambda episodes: _mean([e.reward for e in episodes])),
        ("tool calls per episode", lambda episodes: _mean([_tool_calls(e) for e in episodes])),
    ]
    for name, measure in measures:
        yield name, measure(before), measure(after)
    if not all(episode.completed for episode in [*before, *after]):
        failed = [str(sum(not episode.completed for episode in episodes)) for episodes in (before, after)]
        yield "episodes that failed", failed[0], failed[1]


def _tool_calls(episode: Episode) -> float | None:
    return episode.output.log_metrics.get("tool_calls") if episode.output else None


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{fmean(known):.2f}" if known else "-"


def _episodes(before: Sequence[Group], after: Sequence[Group]) -> Iterator[str]:
    changed = list(_newly_solved(_by_task(before), _by_task(after)))
    if not changed:
        yield "No task that failed before is solved now."
        yield ""
        return
    for old, new in changed[:SHOWN_EPISODES]:
        yield f"{old.task.main_query}  (answer: {old.task.metadata.get('answer', old.task.metadata.get('price'))})"
        for title, episode in (("before", old), ("after", new)):
            yield f"  {title}"
            # The first line names the episode, as the title does.
            yield indent("\n".join(format_transcript(episode).splitlines()[1:]), "  ")
        yield ""


def _newly_solved(before: Mapping[str, Episode], after: Mapping[str, Episode]) -> Iterator[tuple[Episode, Episode]]:
    for task_id, old in before.items():
        new = after.get(task_id)
        if new is not None and new.is_success and not old.is_success:
            yield old, new


def _by_task(groups: Sequence[Group]) -> dict[str, Episode]:
    return {group.task.task_id: group.episodes[0] for group in groups if group.episodes}


def _list_episodes(groups: Sequence[Group]) -> list[Episode]:
    return [episode for group in groups for episode in group.episodes]


def _next_steps(project: Path, run: Path, browsers: Sequence[tuple[str, str]]) -> str:
    template = resources.files(__package__).joinpath("next_steps.txt").read_text(encoding="utf-8")
    lines = "".join(f"  {command:<77}# {what}\n" for command, what in browsers)
    typed = {"home": project, "exported": _relative_to(run, project), "name": run.name}
    quoted = {name: shlex.quote(str(path)) for name, path in typed.items()}
    return template.rstrip().format(project=project, run=run, browsers=lines, **quoted)


def _relative_to(path: Path, directory: Path) -> Path:
    return path.relative_to(directory) if path.is_relative_to(directory) else path
