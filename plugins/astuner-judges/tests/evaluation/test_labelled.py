"""How rows of labelled answers are read."""

from __future__ import annotations

from typing import Any

import pytest

from astuner.contract.errors import DataError
from astuner.contract.schema import Task
from astuner_judges.evaluation.joining import join
from astuner_judges.evaluation.labelled import Fields, LabelledExample, digest, read_examples


def read(*rows: dict[str, Any], **fields: Any) -> list[LabelledExample]:
    tasks = (Task(row.pop("main_query", "q?"), task_id=f"t{number}", metadata=row) for number, row in enumerate(map(dict, rows)))
    return list(read_examples(tasks, Fields(**fields)))


def answers(example: LabelledExample) -> list[tuple[str, float]]:
    return [(answer.text, answer.label) for answer in example.answers]


@pytest.mark.parametrize(
    ("given", "label"),
    [(0.25, 0.25), (1, 1.0), (True, 1.0), (False, 0.0), ("right", 1.0), ("Wrong", 0.0), ("正确", 1.0), (" bad ", 0.0)],
)
def test_a_label_is_a_score_or_says_right_or_wrong(given: Any, label: float) -> None:
    (example,) = read({"final_answer": "a", "score": given})
    assert answers(example) == [("a", label)]
    assert example.scored


def test_words_mean_the_ends_of_the_scale() -> None:
    (good, bad) = read({"final_answer": "a", "score": True}, {"final_answer": "b", "score": "wrong"}, low=1.0, high=5.0)
    assert (good.answers[0].label, bad.answers[0].label) == (5.0, 1.0)


def test_a_reference_answer_is_a_good_example_where_there_is_no_other() -> None:
    (example,) = read({"answer": "42"})
    assert answers(example) == [("42", 1.0)]


def test_a_reference_beside_a_labelled_answer_stays_with_the_task() -> None:
    (example,) = read({"answer": "42", "final_answer": "41", "score": 0})
    assert answers(example) == [("41", 0.0)]
    assert example.task.metadata == {"answer": "42"}


def test_a_reference_that_is_itself_the_labelled_answer_does_not_stay() -> None:
    (example,) = read({"answer": "42", "score": 0})
    assert (answers(example), example.task.metadata, example.reference) == ([("42", 0.0)], {}, None)


def test_a_reference_alone_is_no_example_where_none_is_wanted() -> None:
    with pytest.raises(DataError, match="no answer: neither 'final_answer' nor 'candidates' nor 'chosen' is there"):
        read({"answer": "42"}, reference_alone=False)


@pytest.mark.parametrize(("cell", "label"), [("0.5", 0.5), ("1", 1.0), ("true", 1.0), ("False", 0.0), (" wrong ", 0.0)])
def test_a_label_may_be_the_text_of_a_cell(cell: str, label: float) -> None:
    (alone, several) = read(
        {"final_answer": "a", "score": cell},
        {"candidates": f'[{{"answer": "a", "score": "{cell}"}}, {{"answer": "b", "score": 0.25}}]', "score": ""},
    )
    assert (answers(alone), answers(several)) == ([("a", label)], [("a", label), ("b", 0.25)])


def test_ranks_may_be_texts_too() -> None:
    (example,) = read({"candidates": '[{"answer": "a", "rank": "2"}, {"answer": "b", "rank": "1"}]'})
    assert answers(example) == [("a", -2.0), ("b", -1.0)]


def test_candidates_have_ranks_or_labels() -> None:
    ranked, scored = read(
        {"candidates": [{"answer": "a", "rank": 2}, {"answer": "b", "rank": 1}]},
        {"candidates": [{"final_answer": "a", "score": 0.5}, {"final_answer": "b", "score": True}]},
    )
    assert (answers(ranked), ranked.scored) == ([("a", -2.0), ("b", -1.0)], False)
    assert (answers(scored), scored.scored) == ([("a", 0.5), ("b", 1.0)], True)


def test_chosen_is_better_than_rejected() -> None:
    (example,) = read({"chosen": "a", "rejected": "b"})
    assert (answers(example), example.scored) == ([("a", -1.0), ("b", -2.0)], False)


def test_a_judge_cannot_read_the_label() -> None:
    (example,) = read({"final_answer": "a", "score": 1, "rank": 3, "candidates": None, "topic": "sums"})
    assert dict(example.task.metadata) == {"answer": None} or dict(example.task.metadata) == {"topic": "sums"}


def test_rows_of_the_same_task_become_siblings() -> None:
    rows = read(
        {"main_query": "1?", "final_answer": "a", "score": 1, "answer": "x"},
        {"main_query": "2?", "final_answer": "b", "score": 1, "answer": "x"},
        {"main_query": "1?", "final_answer": "c", "score": 0, "answer": "x"},
        {"main_query": "1?", "final_answer": "d", "score": 0, "answer": "another reference"},
    )
    assert [[text for text, _ in answers(example)] for example in join(rows)] == [["a", "c"], ["b"], ["d"]]


def test_what_a_row_says_of_its_answer_makes_no_other_task_and_stays_with_the_answer() -> None:
    rows = read(
        {"final_answer": "a", "score": 1, "model": "large", "topic": "sums"},
        {"final_answer": "b", "score": 0, "model": "small", "topic": "sums", "annotator": 7},
    )
    (example,) = join(rows)
    assert example.task.metadata == {"topic": "sums"}
    assert [answer.more for answer in example.answers] == [{"model": "large"}, {"model": "small", "annotator": 7}]


def test_what_was_said_before_the_question_makes_another_task() -> None:
    def task(said: str, answer: str) -> Task:
        messages = [{"role": "assistant", "content": said}, {"role": "user", "content": "sure?"}]
        return Task(init_messages=messages, metadata={"final_answer": answer, "score": 1})

    tasks = [task("two", "a"), task("three", "b"), task("two", "c")]
    assert [len(example.answers) for example in join(read_examples(tasks, Fields()))] == [2, 1]


def test_ranks_say_nothing_beyond_their_own_row() -> None:
    rows = read({"chosen": "a", "rejected": "b"}, {"chosen": "b", "rejected": "c"})
    assert [[text for text, _ in answers(example)] for example in join(rows)] == [["a", "b"], ["b", "c"]]


@pytest.mark.parametrize("scored", [True, False])
def test_of_the_first_tasks_no_answer_is_missing(scored: bool) -> None:
    given = [{"main_query": f"{n % 3}?", "final_answer": f"{n}", "score": 1} for n in range(9)]
    pairs = [{"main_query": f"{n}?", "chosen": "a", "rejected": "b"} for n in range(9)]
    source = iter(read(*(given if scored else pairs)))
    found = join(source, 2)
    assert [len(example.answers) for example in found] == ([3, 3] if scored else [2, 2])
    assert len(list(source)) == (0 if scored else 7)


def test_examples_are_recognised_whatever_their_layout() -> None:
    assert digest("How  many?", "Four.\n") == digest("how many?", "four.")
    assert digest("How many?", "four") != digest("How many?", "five")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"final_answer": "a"}, "an answer in 'final_answer', and no label in 'score'; there are: final_answer"),
        ({"topic": "sums"}, "no answer: neither 'final_answer' nor 'answer' nor 'candidates' nor 'chosen' is there"),
        ({"final_answer": "a", "score": "so-so"}, "the label 'so-so' in 'score' must be a number"),
        ({"final_answer": "a", "score": ""}, "an answer in 'final_answer', and no label in 'score'"),
        ({"final_answer": "a", "score": "NaN"}, "the label 'NaN' in 'score' must be a number"),
        ({"candidates": "[1"}, r"'candidates' is a list of two or more objects, not '\[1'"),
        ({"final_answer": "a", "score": 7}, "outside of min_score 0 and max_score 1"),
        ({"final_answer": "a", "score": float("nan")}, "must be a number"),
        ({"final_answer": "a", "score": float("inf")}, "must be a number"),
        ({"final_answer": "a", "score": 10**400}, "must be a number"),
        ({"final_answer": "a", "score": [1, 2]}, r"the label \[1, 2\] in 'score' must be a number"),
        ({"final_answer": "a", "score": {"helpful": 1}}, r"the label \{'helpful': 1\} in 'score' must be a number"),
        ({"candidates": [{"answer": "a", "score": [1]}, {"answer": "b", "score": 0}]}, r"the label \[1\] in 'score'"),
        ({"candidates": [{"answer": "a", "rank": [1]}, {"answer": "b", "rank": 2}]}, "needs a number in 'rank'"),
        ({"candidates": [{"answer": "a", "rank": 1}]}, "a list of two or more objects"),
        ({"candidates": [{"answer": "a", "rank": 1}, {"rank": 2}]}, "a candidate has no answer"),
        ({"candidates": [{"answer": "a"}, {"answer": "b"}]}, "needs a number in 'rank'"),
        ({"main_query": "", "final_answer": "a", "score": 1}, "no question in 'main_query'"),
    ],
)
def test_a_row_that_is_no_example_says_why(row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(row)


def test_a_question_may_stand_in_the_metadata_or_the_messages() -> None:
    (example,) = read({"ask": "why?", "final_answer": "a", "score": 1}, query="ask")
    assert example.query == "why?"
    task = Task(init_messages=[{"role": "user", "content": "who?"}], metadata={"final_answer": "a", "score": 1})
    assert next(read_examples([task], Fields())).query == "who?"
