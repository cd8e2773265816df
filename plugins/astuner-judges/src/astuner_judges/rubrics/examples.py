"""The examples that rubrics are learnt from, as the two modes of grading see them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from attrs import evolve, frozen

from astuner.contract.errors import DataError
from astuner_judges.evaluation.labelled import LabelledExample, digest
from astuner_judges.rubrics.options import KEY, RubricsOptions

FEWEST = 4


@frozen(kw_only=True)
class Example:
    """A question with one labelled answer (pointwise), or several (listwise)."""

    query: str
    answers: tuple[str, ...]
    labels: tuple[float, ...]
    is_good: bool
    """Whether the only answer is a success; true for several."""
    place: str
    """The id of its task."""

    @property
    def digests(self) -> tuple[str, ...]:
        """One per answer."""
        return tuple(digest(self.query, answer) for answer in self.answers)


def has_an_order(row: LabelledExample) -> bool:
    """Whether one of the answers is better than another."""
    return len({answer.label for answer in row.answers}) > 1


def build_examples(rows: Sequence[LabelledExample], options: RubricsOptions) -> list[Example]:
    """Return the examples of labelled rows, each once; raises `DataError` for rows of the other mode."""
    made = _build_pointwise(rows, options) if options.grader_mode == "pointwise" else _build_listwise(rows)
    once: dict[tuple[str, ...], Example] = {}
    for example in made:
        first = once.setdefault(example.digests, example)
        if first.labels != example.labels:
            raise DataError(
                f"{KEY}: the labelled examples '{first.place}' and '{example.place}' are the same but for the label: "
                f"{', '.join(f'{label:g}' for label in (*first.labels, *example.labels))}; remove one"
            )
    return list(once.values())


def make_counterexamples(examples: Sequence[Example], low: float, seed: int) -> list[Example]:
    """Return each question with the answer to another one, as a bad example: for data with only good answers.

    An answer that is right for both questions is not bad, and each bad example is made once.
    """
    order = list(range(len(examples)))
    random.Random(seed).shuffle(order)
    # Questions are compared by digest: every answer to the same question is known.
    known = {one for example in examples for one in example.digests}
    made: list[Example] = []
    for position, place in enumerate(order):
        own = examples[place]
        turns = (examples[order[(position + step) % len(order)]] for step in range(1, len(order)))
        others = (evolve(own, answers=one.answers, labels=(low,), is_good=False) for one in turns)
        bad = next((one for one in others if not known & {*one.digests}), None)
        if bad is not None:
            known.update(bad.digests)
            made.append(bad)
    return made


def check_enough(examples: Sequence[Example], options: RubricsOptions) -> None:
    """Raise `DataError` for too few examples, or none that is good."""
    if len(examples) < FEWEST:
        raise DataError(
            f"{KEY}: {len(examples)} labelled examples to learn from, and {FEWEST} are the fewest: a rubric is checked on others "
            "than its own. Add rows, or raise num_reference_samples"
        )
    if not any(example.is_good for example in examples):
        raise DataError(
            f"{KEY}: none of the {len(examples)} labelled examples reaches success_threshold ({options.success_threshold:g}); "
            "add good answers, or lower it"
        )


def _build_pointwise(rows: Sequence[LabelledExample], options: RubricsOptions) -> list[Example]:
    made = []
    for row in rows:
        if not row.scored:
            raise DataError(
                f"{KEY}: the labelled example '{row.task.task_id}' ranks its answers, which grader_mode: pointwise cannot learn "
                f"from: give each a label in '{options.label_field}', or set grader_mode: listwise"
            )
        for answer in row.answers:
            good = answer.label >= options.success_threshold
            made.append(
                Example(query=row.query, answers=(answer.text,), labels=(answer.label,), is_good=good, place=row.task.task_id)
            )
    return made


def _build_listwise(rows: Sequence[LabelledExample]) -> list[Example]:
    made = []
    for row in rows:
        if not has_an_order(row):
            raise DataError(
                f"{KEY}: the labelled example '{row.task.task_id}' has no two answers of which one is better, which grader_mode: "
                "listwise learns from: give it candidates with ranks, chosen and rejected, or rows of the same task with scores"
            )
        labels = _labels_by_text(row)
        texts, numbers = tuple(labels), tuple(labels.values())
        made.append(Example(query=row.query, answers=texts, labels=numbers, is_good=True, place=row.task.task_id))
    return made


def _labels_by_text(row: LabelledExample) -> dict[str, float]:
    labels: dict[str, float] = {}
    for answer in row.answers:
        first = labels.setdefault(answer.text, answer.label)
        if first != answer.label:
            raise DataError(
                f"{KEY}: the labelled example '{row.task.task_id}' has one answer twice, with different labels: {first:g}, "
                f"{answer.label:g}; remove one"
            )
    return labels
