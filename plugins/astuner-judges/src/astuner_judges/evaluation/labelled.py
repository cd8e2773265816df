"""Labelled examples: rows with a question, one or several answers, and their labels."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

from attrs import evolve, field, frozen

from astuner.contract.errors import DataError
from astuner.contract.schema import Task
from astuner.shared.tabular import parse_json

GOOD_WORDS = frozenset({"right", "correct", "good", "true", "yes", "pass", "正确", "好", "对"})
BAD_WORDS = frozenset({"wrong", "incorrect", "bad", "false", "no", "fail", "错误", "差", "错"})
CHOSEN, REJECTED = "chosen", "rejected"


@frozen(kw_only=True)
class Fields:
    """Where rows hold each value, and the scores of `right` and `wrong`."""

    query: str = "main_query"
    answer: str = "final_answer"
    reference: str = "answer"
    """Holds a right answer, which belongs to the task if there is a labelled answer too."""
    reference_alone: bool = True
    """Whether a right answer is an example if the row has no labelled one."""
    label: str = "score"
    candidates: str = "candidates"
    rank: str = "rank"
    low: float = 0.0
    high: float = 1.0
    bounded: bool = True
    """Whether scores outside these two are refused."""


@frozen(kw_only=True)
class LabelledAnswer:
    """One answer."""

    text: str
    label: float
    """More is better; for ranked answers, the negative rank."""
    more: Mapping[str, Any] = field(factory=dict)
    """Values of its row that others of the same task lack or have different, such as the model that gave the answer."""


@frozen(kw_only=True)
class LabelledExample:
    """A question with labelled answers."""

    task: Task
    """Without the answers and labels, so that a judge cannot read them."""
    query: str
    answers: tuple[LabelledAnswer, ...]
    scored: bool
    """Whether labels are scores; otherwise they only say which answer is better."""
    reference: Any = None
    """The right answer, if given: the same question with another one is another task."""

    @property
    def digests(self) -> tuple[str, ...]:
        """One per answer: 12 hex digits of the question and 12 of the answer."""
        return tuple(digest(self.query, answer.text) for answer in self.answers)


def digest(query: str, answer: str) -> str:
    """Return a digest of an example that ignores case and white space."""
    return "-".join(
        blake2b(" ".join(text.casefold().split()).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        for text in (query, answer)
    )


def digest_of_question(example: str) -> str:
    """Return the question's part of such a digest."""
    return example.partition("-")[0]


def read_examples(tasks: Iterable[Task], fields: Fields) -> Iterator[LabelledExample]:
    """Yield an example per task; raises `DataError` for one without answer or label."""
    for task in tasks:
        yield _read_example(task, fields)


def read_query(task: Task, name: str = "main_query") -> str:
    """Return the question of a task: the field of that name, or the key of its metadata; raises `DataError`."""
    if name == "main_query":
        last = next((message for message in reversed(task.init_messages) if message.get("role") == "user"), {})
        text: Any = task.main_query or last.get("content")
    else:
        text = task.metadata.get(name)
    if not isinstance(text, str) or not text.strip():
        raise DataError(
            f"task '{task.task_id}': no question in '{name}' (its metadata has: {', '.join(task.metadata) or 'nothing'}); "
            "name the right one: by query_field, or by the `columns` of the reader"
        )
    return text


def to_text(value: Any) -> str:
    """Return an answer as text: other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _read_example(task: Task, fields: Fields) -> LabelledExample:
    row, query = task.metadata, read_query(task, fields.query)
    told = {fields.candidates, fields.answer, fields.label, fields.rank, CHOSEN, REJECTED}
    candidates = _read(row.get(fields.candidates))
    if candidates is not None:
        answers, scored = _read_candidates(task, candidates, fields)
    elif row.get(CHOSEN) is not None and row.get(REJECTED) is not None:
        pair = (row[CHOSEN], 1), (row[REJECTED], 2)
        answers, scored = tuple(LabelledAnswer(text=to_text(text), label=-float(rank)) for text, rank in pair), False
    else:
        answers, scored = (_read_single(task, row, fields),), True
        if row.get(fields.answer) is None:
            told.add(fields.reference)
    left = {key: value for key, value in row.items() if key not in told}
    return LabelledExample(
        task=evolve(task, metadata=left), query=query, answers=answers, scored=scored, reference=left.get(fields.reference)
    )


def _read(value: Any) -> Any:
    """Return a label or candidates parsed from JSON if they are text, as in a cell of csv."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value) if value.strip() else None
    except ValueError:
        return value


def _read_single(task: Task, row: Mapping[str, Any], fields: Fields) -> LabelledAnswer:
    label = _read(row.get(fields.label))
    if row.get(fields.answer) is not None:
        if label is None:
            where = _place(task)
            raise DataError(f"{where}: an answer in '{fields.answer}', and no label in '{fields.label}'{_list_fields(row)}")
        return LabelledAnswer(text=to_text(row[fields.answer]), label=_score(task, label, fields))
    if not fields.reference_alone or row.get(fields.reference) is None:
        alone = (fields.reference,) if fields.reference_alone else ()
        names = " nor ".join(map(repr, (fields.answer, *alone, fields.candidates, CHOSEN)))
        raise DataError(f"{_place(task)}: no answer: neither {names} is there{_list_fields(row)}")
    # A label applies to the reference answer; without one that is right.
    score = fields.high if label is None else _score(task, label, fields)
    return LabelledAnswer(text=to_text(row[fields.reference]), label=score)


def _read_candidates(task: Task, given: Any, fields: Fields) -> tuple[tuple[LabelledAnswer, ...], bool]:
    names = (fields.answer, fields.reference, "answer")
    if not isinstance(given, list) or len(given) < 2 or not all(isinstance(one, Mapping) for one in given):
        raise DataError(f"{_place(task)}: '{fields.candidates}' is a list of two or more objects, not {str(given)[:80]!r}")
    texts = [next((one[name] for name in names if one.get(name) is not None), None) for one in given]
    if None in texts:
        raise DataError(f"{_place(task)}: a candidate has no answer in '{fields.answer}'{_list_fields(given[texts.index(None)])}")
    given_labels, ranks = ([_read(one.get(name)) for one in given] for name in (fields.label, fields.rank))
    scored = None not in given_labels
    if not scored and not all(map(_is_number, ranks)):
        raise DataError(
            f"{_place(task)}: each candidate needs a number in '{fields.rank}' (1 is the best), or a label in '{fields.label}'"
        )
    labels = [_score(task, label, fields) for label in given_labels] if scored else [-float(rank) for rank in ranks]
    return tuple(LabelledAnswer(text=to_text(text), label=label) for text, label in zip(texts, labels, strict=True)), scored


def _score(task: Task, value: Any, fields: Fields) -> float:
    word = value.strip().casefold() if isinstance(value, str) else None
    if value is True or word in GOOD_WORDS:
        return fields.high
    if value is False or word in BAD_WORDS:
        return fields.low
    if not _is_number(value):
        raise DataError(
            f"{_place(task)}: the label {value!r} in '{fields.label}' must be a number, true or false, or a word such as "
            "'right' or 'wrong'"
        )
    if fields.bounded and not fields.low <= value <= fields.high:
        raise DataError(
            f"{_place(task)}: the label {value!r} in '{fields.label}' lies outside of min_score {fields.low:g} and max_score "
            f"{fields.high:g}; set these to the range of your labels"
        )
    return float(value)


def _is_number(value: Any) -> bool:
    # NaN is not below anything, and neither infinity nor a huge integer is a score.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _place(task: Task) -> str:
    return f"labelled example '{task.task_id}'"


def _list_fields(row: Mapping[str, Any]) -> str:
    return f"; there are: {', '.join(map(str, row)) or 'no fields'}"
