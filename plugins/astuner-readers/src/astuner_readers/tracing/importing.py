"""The way from sources to data sets: read, put together, hear what users said, filter, split, write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import frozen

from astuner.builtin.unique_ids import UniqueIds
from astuner.errors import DataError
from astuner.schema import Split as SplitName
from astuner_readers.tracing.filters.filter import Filter
from astuner_readers.tracing.filters.llm_evaluate import Asking
from astuner_readers.tracing.options import TracingOptions
from astuner_readers.tracing.records import Annotation, Broken
from astuner_readers.tracing.sources.opening import Access, Source, open_sources
from astuner_readers.tracing.spool import Spool
from astuner_readers.tracing.tally import Tally
from astuner_readers.tracing.tasks import Candidate, candidate_of, task_id_of, with_feedback
from astuner_readers.tracing.turns import Turn, turns_of
from astuner_readers.tracing.writing import Rows, replaced

NO_QUESTION = "no question in text"
NOT_TEXT = "an image or file in the question"
NO_ANSWER = "no answer"
NOTHING_ASKED = "traces in which nothing was asked"


@frozen(kw_only=True)
class Destinations:
    """The files of the splits. A split without one is not written."""

    train: tuple[Path, ...]
    validation: tuple[Path, ...] = ()


def import_tasks(options: TracingOptions, asking: Asking, to: Destinations) -> Tally:
    """Make the data sets; return what became of everything that was read.

    Relative sources start at `asking.config_dir`. Raises `DataError` when nothing of them can be read, or when nothing that was
    read is a task; earlier data sets then stay as they are.
    """
    access = Access(project=options.project, environ=asking.environ)
    sources = open_sources(options.named_sources, asking.config_dir, access)
    filters = [(choice.type, choice.make(asking)) for choice in options.filters if choice.enabled]
    tally = Tally()
    with TemporaryDirectory(prefix="astuner-traces-") as scratch, closing(Spool(Path(scratch) / "spool.sqlite")) as spool:
        _read(sources, spool, tally)
        _find_turns(spool, options, tally)
        _hear(spool, options, tally)
        _judge(spool, options, tally)
        for name, one in filters:
            _filter(spool, name, one, tally)
        _write(spool, options, to, tally)
    return tally


def _read(sources: Sequence[Source], spool: Spool, tally: Tally) -> None:
    for source in sources:
        counts = tally.sources.setdefault(source.name, Counter())
        for record in source.records():
            if isinstance(record, Broken):
                tally.note_broken(source.name, record.place, record.reason)
            elif isinstance(record, Annotation):
                counts["annotations"] += 1
                spool.add_annotation(record)
            elif spool.add_span(record):
                counts["spans"] += 1
            else:
                tally.repeated_spans += 1
    if tally.spans == 0:
        what = "nothing in it is a span" if tally.broken else "there are no spans in it"
        raise DataError(f"{', '.join(source.name for source in sources)}: {what}: {tally.sentence()}")


def _find_turns(spool: Spool, options: TracingOptions, tally: Tally) -> None:
    for spans in spool.traces():
        tally.traces += 1
        turns = turns_of(spans, options.agents)
        tally.turns += len(turns)
        if not turns:
            tally.left_out[NOTHING_ASKED] += 1
        for turn in turns:
            if why := _unusable(turn):
                tally.left_out[why] += 1
            else:
                spool.add_task(candidate_of(turn, keeps_system_prompt=options.keep_system_prompt))


def _unusable(turn: Turn) -> str | None:
    if turn.not_text:
        return NOT_TEXT
    return None if turn.query else NO_QUESTION


def _hear(spool: Spool, options: TracingOptions, tally: Tally) -> None:
    for annotation in spool.annotations():
        if annotation.annotator not in options.annotators:
            continue
        if options.annotation_names and annotation.name not in options.annotation_names:
            continue
        tally.annotations += 1
        meant = spool.tasks_meant(annotation)
        tally.unmatched_annotations += not meant
        for number in meant:
            spool.add_said(number, annotation)


def _judge(spool: Spool, options: TracingOptions, tally: Tally) -> None:
    """Give each task what was said of it, and leave out those without an answer: a correction is one too."""
    for number, candidate in spool.tasks():
        if said := spool.said_of(number):
            candidate = with_feedback(candidate, said, good_from=options.good_from)
            spool.set_task(number, candidate)
        if options.require_answer and candidate.answer is None and candidate.reference is None:
            tally.left_out[NO_ANSWER] += 1
            spool.drop(number, NO_ANSWER)


def _filter(spool: Spool, name: str, one: Filter, tally: Tally) -> None:
    tally.filtered.setdefault(name, 0)
    for number in one.left_out(spool.tasks(best_first=one.best_first), tally):
        spool.drop(number, name)
        tally.filtered[name] += 1


def _write(spool: Spool, options: TracingOptions, to: Destinations, tally: Tally) -> None:
    if next(spool.tasks(), None) is None:
        raise DataError(f"{', '.join(options.named_sources)}: no task among what was read: {tally.sentence()}")
    split, by_conversation = options.split, options.validation_by == "conversation"
    validated = split.choose(spool) if by_conversation else frozenset[str]()
    with ExitStack() as stack:
        files: Mapping[SplitName, _File] = {
            "train": _File(stack, to.train, options.limit),
            "validation": _File(stack, to.validation, options.limit),
        }
        for _, candidate in spool.tasks():
            if by_conversation:
                for_validation = candidate.conversation in validated
            else:
                for_validation = split.validates(candidate.key, candidate.time_ns)
            if files["validation" if for_validation else "train"].add(candidate):
                tally.with_feedback += bool(candidate.feedback)
        tally.train, tally.validation = files["train"].count, files["validation"].count


class _File:
    """One split, written to each of its places."""

    def __init__(self, stack: ExitStack, paths: Sequence[Path], limit: int | None) -> None:
        self._rows: list[Rows] = [stack.enter_context(replaced(path)) for path in paths]
        self._limit = limit
        self._known = UniqueIds()
        self.count = 0

    def add(self, candidate: Candidate) -> bool:
        """Write a task; return False when the limit is reached."""
        if self._limit is not None and self.count >= self._limit:
            return False
        task_id = task_id_of(candidate)
        if self._known.seen(task_id):
            task_id = task_id_of(candidate, alone=False)
        for rows in self._rows:
            rows.add(candidate.row(task_id))
        self.count += 1
        return True


def imbalance(options: TracingOptions, tally: Tally) -> str | None:
    """Return what a user should know of a split that put everything on one side; None where it did not, or there is no rule."""
    if not options.validation_fraction and options.validation_after is None:
        return None
    empty = [name for name, count in (("training", tally.train), ("validation", tally.validation)) if count == 0]
    if not empty:
        return None
    if options.validation_after is not None or options.validation_by == "task":
        return f"The rule for validation put no task into {empty[0]}."
    return (
        f"The rule for validation put no task into {empty[0]}: it keeps conversations together, and there may be one only "
        "(AgentScope 1 gives all that one process answers the same id). validation_by: task splits within conversations."
    )


def lines_of(tally: Tally) -> Iterator[str]:
    """Yield the counts as lines of a table."""
    rows = list(tally.rows())
    width = max(len(name) for name, _ in rows)
    return (f"{name:<{width}}  {value}" for name, value in rows)
