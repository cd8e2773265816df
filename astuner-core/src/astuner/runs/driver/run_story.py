"""How a run went, in a few lines at its end: what was reached, what it took, what was lost, and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from astuner.episodes.transcript.terminal_text import format_seconds
from astuner.runs.driver.run_directories import shorten_path
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.metric_rows import Row, read_metric_rows
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.compat import find_incompatibility
from astuner.settings.plugins.core_commands import CORE_COMMANDS, format_typed
from astuner.settings.plugins.functions import find_function

REWARD = "val/reward/mean"
_LOST = "signal/lost/"


def tell_story(
    directory: RunDirectory, viewers: Sequence[str] = (), run_viewers: Sequence[str] = (), *, shown: bool = False
) -> list[str]:
    """Return the lines; those that this run has no numbers for are left out.

    `viewers` are commands that show what its loggers have written, and `run_viewers` those of plugins that show a run: its
    directory is typed after them. `shown`: whether the run itself has shown its episodes.
    """
    rows = read_metric_rows(directory.metrics).rows
    train = [row for row in rows if row["kind"] == "train"]
    return [
        *_describe_validation(
            [row for row in rows if row["kind"] == "validation" and isinstance(row.get(REWARD), int | float)], directory
        ),
        *_describe_training(train),
        *_describe_cost(train, rows),
        *_describe_losses(train),
        *(f"why:      {cause}" for cause in (len(train) > 1 and find_cause(directory),) if cause),
        *list_next_commands(directory, viewers, run_viewers if shown else (*run_viewers, "astuner episodes")),
    ]


def find_cause(directory: RunDirectory) -> str | None:
    """Return the most likely cause that holds a run back, in a line; None if none stands out, or if no package can say."""
    describe = find_function("describe_run")
    try:
        return describe and describe(directory.path, shorten_path(directory.path))
    except Exception as error:  # noqa: BLE001 - the boundary for what only advises: the run goes on without it
        return f"what holds this run back cannot be said: {type(error).__name__}: {error}"


def list_run_viewers(catalog: Catalog) -> list[str]:
    """Return the commands of plugins that show a run and can be used, as they are typed before its directory: `astuner NAME`."""
    return [
        f"astuner {format_typed(spelling)}"
        for spelling, candidate in catalog.map_spellings("command", taken=CORE_COMMANDS).items()
        if candidate.shows_runs and not candidate.missing and find_incompatibility(candidate) is None
    ]


def list_next_commands(directory: RunDirectory, viewers: Sequence[str], run_viewers: Sequence[str]) -> Iterator[str]:
    """Yield the commands that take a run further, each with what it does."""
    run = shorten_path(directory.path)
    yield from (f"look:     {command} {run}" for command in run_viewers)
    yield from (f"curves:   {command}" for command in viewers)
    if directory.list_saved_steps():
        from astuner.runs.store.checkpoints import find_better_step

        better = find_better_step(directory)
        yield f"compare:  astuner compare {run} OTHER_RUN"
        of = "" if better is None else f" of step {better}"
        chosen = " --checkpoint best" if of else ""
        if (directory.path / "prompts.json").exists():
            return  # prompts were tuned, and no weights
        yield f"export:   astuner export {run}{chosen} --out MODEL_DIR   (a Hugging Face model{of}, which inference servers load)"


def _describe_validation(rows: Sequence[Row], directory: RunDirectory) -> Iterator[str]:
    if not rows:
        return
    first, last = rows[0], rows[-1]
    best = max(rows, key=lambda row: (row[REWARD], -row["step"]))
    if first is last:
        yield f"validation reward {first[REWARD]:.3f} after step {first['step']}{_describe_success(first)}{_describe_share(rows)}"
        return
    success = "".join(f", success {a} → {b}" for a, b in [(_read_success(first), _read_success(last))] if a and b)
    lost = "" if best["step"] in (0, *directory.list_saved_steps()) else ", which was not kept"
    yield (
        f"validation reward {first[REWARD]:.3f} → {last[REWARD]:.3f}{success} "
        f"(steps {first['step']} → {last['step']}; best {best[REWARD]:.3f} after step {best['step']}{lost})"
        f"{_describe_share([first, last])}"
    )


def _describe_share(rows: Sequence[Row], prefix: str = "val/", total: str = "val/episodes") -> str:
    """Return of how many episodes the means are, if of fewer than were played."""
    found = [(row.get(f"{prefix}reward/count"), row.get(total)) for row in rows]
    if all(not count or not every or count >= every for count, every in found):
        return ""
    return ", of " + " → ".join(f"{count or 0:,.0f} of {every or 0:,.0f}" for count, every in found) + " episodes"


def _describe_training(rows: Sequence[Row]) -> Iterator[str]:
    rewarded = [row for row in rows if isinstance(row.get("reward/mean"), int | float)]
    if len(rewarded) > 1:
        first, last = rewarded[0], rewarded[-1]
        best = max(rewarded, key=lambda row: (row["reward/mean"], -row["step"]))
        yield (
            f"training reward {first['reward/mean']:.3f} → {last['reward/mean']:.3f} "
            f"(steps {first['step']} → {last['step']}; best {best['reward/mean']:.3f} in step {best['step']})"
            f"{_describe_share([first, last], '', 'signal/episodes')}"
        )


def _describe_cost(train: Sequence[Row], rows: Sequence[Row]) -> Iterator[str]:
    if not train:
        return
    seconds = _add_up(rows, "time/step_s")
    episodes = _add_up(train, "signal/episodes") + _add_up(rows, "val/episodes")
    sampled, trained = _add_up(rows, "tokens/generated"), _add_up(train, "tokens/trained")
    parts = [f"{len(train)} {'step' if len(train) == 1 else 'steps'}{f' in {format_seconds(seconds)}' if seconds else ''}"]
    parts += [f"{episodes:,.0f} {'episode' if episodes == 1 else 'episodes'}"] if episodes else []
    parts += [f"{sampled:,.0f} tokens sampled"] if sampled else []
    parts += [f"{trained:,.0f} trained"] if trained else []
    yield ", ".join(parts)


def _describe_losses(train: Sequence[Row]) -> Iterator[str]:
    lost: Counter[str] = Counter()
    for row in train:
        lost.update({name.removeprefix(_LOST): int(count) for name, count in row.items() if name.startswith(_LOST)})
    episodes = {reason: count for reason, count in lost.most_common() if not reason.startswith("tokens_") and count}
    tokens = {
        reason.removeprefix("tokens_"): count for reason, count in lost.most_common() if reason.startswith("tokens_") and count
    }
    if episodes:
        total = _add_up(train, "signal/episodes")
        yield f"lost: {sum(episodes.values()):,} of {total:,.0f} episodes ({_join(episodes)})"
    if tokens:
        yield f"not trained: {sum(tokens.values()):,} sampled tokens ({_join(tokens)})"


def _describe_success(row: Row) -> str:
    return f", success {success}" if (success := _read_success(row)) else ""


def _read_success(row: Row) -> str:
    return f"{row['val/success/rate']:.0%}" if row.get("val/success/rate") is not None else ""


def _join(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in counts.items())


def _add_up(rows: Sequence[Row], name: str) -> float:
    return sum(float(row.get(name) or 0.0) for row in rows)
