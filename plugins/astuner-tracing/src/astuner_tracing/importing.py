"""From sources to data sets: read, assemble, add feedback, filter, split, write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import evolve, frozen

from astuner.contract.errors import DataError
from astuner.contract.schema import Split as SplitName
from astuner.settings.config.redaction import redact_keys
from astuner.shared.tabular import UniqueIds
from astuner_tracing.counts import Tally
from astuner_tracing.filters.filter import Filter
from astuner_tracing.filters.llm_evaluate import LlmAccess
from astuner_tracing.options import TracingOptions
from astuner_tracing.records import ODD, Annotation, BadRecord, Record
from astuner_tracing.sources.access import Access
from astuner_tracing.sources.opening import Source, find_new_sources, open_sources
from astuner_tracing.spool import Spool
from astuner_tracing.tasks import Candidate, add_feedback, build_candidate, make_task_id
from astuner_tracing.turns import Turn, find_turns
from astuner_tracing.writing import Rows, check_apart, replace_file

NO_QUESTION = "no question in text"
NOT_TEXT = "an image or file in the question"
NO_ANSWER = "no answer"
OTHER_AGENT = "of another agent"
NOTHING_ASKED = "traces in which nothing was asked"


@frozen(kw_only=True)
class Destinations:
    """The files of the splits. A split without one is not written."""

    train: tuple[Path, ...]
    validation: tuple[Path, ...] = ()


def import_tasks(options: TracingOptions, asking: LlmAccess, to: Destinations) -> Tally:
    """Make the data sets; return counts of everything that was read.

    Relative sources start at `asking.config_dir`. Raises `DataError` if a data set would overwrite a source or another data set,
    if no source can be read, or if there are no tasks; earlier data sets then stay as they are.
    """
    access = Access(project=options.project, environ=asking.environ)
    sources = open_sources(options.named_sources, asking.config_dir, access)
    check_apart((*to.train, *to.validation), [source.path for source in sources if source.path is not None])
    filters = [(choice.type, choice.make(asking)) for choice in options.filters if choice.enabled]
    tally = Tally()
    with TemporaryDirectory(prefix="astuner-traces-") as scratch, closing(Spool(Path(scratch) / "spool.sqlite")) as spool:
        waiting, read = sources, list[Source]()
        while waiting:
            before = tally.spans
            _read(waiting, spool, tally)
            read += waiting
            # A collector may have started a new file meanwhile. Some file systems give files new numbers at each look, so a
            # reading without new spans is the last.
            waiting = find_new_sources(options.named_sources, asking.config_dir, access, read) if tally.spans > before else []
        _check_read(options, tally)
        _find_turns(spool, options, tally)
        _add_annotation(spool, options, tally)
        _judge(spool, options, tally)
        for name, one in filters:
            _filter(spool, name, one, tally)
        _write(spool, options, to, tally)
    return tally


def _read(sources: Sequence[Source], spool: Spool, tally: Tally) -> None:
    for source in sources:
        counts = tally.sources.setdefault(source.name, Counter())
        for record in source.records():
            try:
                _keep(record, source, spool, tally, counts)
            except ODD as error:
                tally.note_broken(source.name, _place(record), _describe_oddity(error))


def _keep(record: Record, source: Source, spool: Spool, tally: Tally, counts: Counter[str]) -> None:
    if isinstance(record, BadRecord):
        tally.note_broken(source.name, record.place, record.reason)
    elif isinstance(record, Annotation):
        spool.add_annotation(record)
        counts["annotations"] += 1
    elif spool.add_span(record):
        counts["spans"] += 1
    else:
        tally.repeated_spans += 1


def _check_read(options: TracingOptions, tally: Tally) -> None:
    if tally.spans == 0:
        what = "nothing in it is a span" if tally.broken else "there are no spans in it"
        raise DataError(f"{', '.join(options.named_sources)}: {what}: {tally.sentence()}")


def _place(record: Record) -> str:
    match record:
        case BadRecord():
            return record.place
        case Annotation():
            return f"feedback on {record.span_id or record.trace_id or record.conversation_id}"
    return f"trace {record.trace_id} span {record.span_id}"


def _describe_oddity(error: Exception) -> str:
    return f"in a shape that is not understood ({type(error).__name__})"


def _find_turns(spool: Spool, options: TracingOptions, tally: Tally) -> None:
    for spans in spool.traces():
        tally.traces += 1
        try:
            turns = find_turns(spans, options.agents)
            made = [(build_candidate(turn, keeps_system_prompt=options.keep_system_prompt), _find_flaw(turn)) for turn in turns]
        except ODD as error:
            tally.note_broken(spans[0].source, f"trace {spans[0].trace_id}", _describe_oddity(error))
            continue
        tally.turns += len(turns)
        if not turns:
            tally.left_out[NOTHING_ASKED] += 1
        for candidate, why in made:
            tally.left_out.update([why] if why else ())
            spool.add_task(candidate, unusable=why)


def _find_flaw(turn: Turn) -> str | None:
    if not turn.selected:
        return OTHER_AGENT
    if turn.not_text:
        return NOT_TEXT
    return None if turn.query else NO_QUESTION


def _add_annotation(spool: Spool, options: TracingOptions, tally: Tally) -> None:
    for annotation in spool.annotations():
        selected = annotation.annotator in options.annotators
        if options.annotation_names and annotation.name not in options.annotation_names:
            selected = False
        if not selected:
            annotation = evolve(annotation, counted=False, correction=None)
        meant = spool.find_tasks(annotation)
        tally.annotations += selected
        tally.unmatched_annotations += selected and not meant
        for number in meant:
            # The correction of a whole trace belongs to its last turn.
            is_last = annotation.span_id is not None or number == meant[-1]
            said = annotation if is_last else evolve(annotation, correction=None)
            if said == annotation or annotation.says_more:
                spool.attach_annotation(number, said)


def _judge(spool: Spool, options: TracingOptions, tally: Tally) -> None:
    """Add the feedback to each task, and drop those without an answer: a correction counts as one."""
    for number, candidate in spool.tasks():
        if said := spool.list_annotations(number):
            candidate = add_feedback(candidate, said, good_from=options.good_from)
            spool.set_task(number, candidate)
        if options.require_answer and candidate.answer is None and candidate.reference is None:
            tally.left_out[NO_ANSWER] += 1
            spool.drop(number, NO_ANSWER)


def _filter(spool: Spool, name: str, one: Filter, tally: Tally) -> None:
    tally.filtered.setdefault(name, 0)
    for number, kept in one.choose_left_out(spool.tasks(best_first=one.best_first), tally):
        spool.drop(number, name, kept)
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
        for number, candidate in spool.tasks():
            # The side of its first duplicate: a question stays there, whichever is liked later.
            first = candidate if (at := spool.find_first(number)) == number else spool.task(at)
            for_validation = first.conversation in validated if by_conversation else split.validates(first.key, first.time_ns)
            if files["validation" if for_validation else "train"].add(candidate):
                tally.with_feedback += bool(candidate.feedback)
                tally.without_answer += candidate.reference is None
        tally.train, tally.validation = files["train"].count, files["validation"].count
        tally.masked = sum(file.masked for file in files.values())


def _mask_secrets(value: Any) -> Any:
    """Replace the keys and passwords that users or tools wrote: a model must not learn them, nor a data set spread them."""
    if isinstance(value, Mapping):
        return {key: _mask_secrets(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mask_secrets(item) for item in value]
    return redact_keys(value) if isinstance(value, str) else value


class _File:
    """One split, written to each of its files."""

    def __init__(self, stack: ExitStack, paths: Sequence[Path], limit: int | None) -> None:
        self._rows: list[Rows] = [stack.enter_context(replace_file(path)) for path in paths]
        self._limit = limit
        self._known = UniqueIds()
        self.count = 0
        self.masked = 0
        """Tasks in which a secret was."""

    def add(self, candidate: Candidate) -> bool:
        """Write a task; return False when the limit is reached."""
        if self._limit is not None and self.count >= self._limit:
            return False
        task_id = make_task_id(candidate)
        if self._known.add(task_id):
            task_id = make_task_id(candidate, alone=False)
        row = candidate.row(task_id)
        masked = _mask_secrets(row)
        for rows in self._rows:
            rows.add(masked)
        self.masked += masked != row
        self.count += 1
        return True


def list_cautions(options: TracingOptions, tally: Tally) -> Iterator[str]:
    """Yield what a user should know about the tasks before training on them."""
    if (text := _find_imbalance(options, tally)) is not None:
        yield text
    if tally.without_answer:
        yield (
            f"{tally.without_answer} tasks have no right answer: their recorded answers were disliked or are missing, and were "
            "not corrected. Judges that compare with an answer, such as math, cannot judge them."
        )


def _find_imbalance(options: TracingOptions, tally: Tally) -> str | None:
    """Return a warning about a split that put everything on one side; None if it did not, or without a rule."""
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


def format_lines(tally: Tally) -> Iterator[str]:
    """Yield the counts as lines of a table."""
    rows = list(tally.rows())
    width = max(len(name) for name, _ in rows)
    return (f"{name:<{width}}  {value}" for name, value in rows)
