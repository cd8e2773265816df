"""What users say becomes a reward, a reference answer, or a reason to leave a task out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.testing.command_line import run_command
from astuner_readers.tracing.annotations import last_words, with_score
from astuner_readers.tracing.records import Annotation

Make = Callable[..., Any]
START = 1_795_000_000 * 10**9


def feedback(*, at: float = 100, trace: int | None = None, span: int | None = None, **said: Any) -> dict[str, Any]:
    keys = {
        "score": "gen_ai.evaluation.score.value",
        "label": "gen_ai.evaluation.score.label",
        "comment": "gen_ai.evaluation.explanation",
        "correction": "astuner.feedback.correction",
        "conversation": "gen_ai.conversation.id",
        "user": "astuner.feedback.user",
    }
    values = {"gen_ai.evaluation.name": "user_feedback", "astuner.feedback.annotator": said.pop("annotator", "human")}
    values |= {keys[name]: value for name, value in said.items()}
    record = {
        "eventName": "gen_ai.evaluation.result",
        "timeUnixNano": str(START + int(at * 10**9)),
        "attributes": [
            {"key": key, "value": {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}}
            for key, value in values.items()
        ],
        **({"traceId": f"{trace:032x}"} if trace else {}),
        **({"spanId": f"{span:016x}"} if span else {}),
    }
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}


def rows(path: Path, *arguments: object) -> dict[str, dict[str, Any]]:
    done = run_command("trace", "import", path, *arguments, "--out", "tasks.jsonl", cwd=path.parent)
    assert done.code == 0, done.err
    read = [json.loads(line) for line in (path.parent / "tasks.jsonl").read_text().splitlines()]
    return {row["main_query"]: row["metadata"] for row in read}


def test_of_a_span_a_trace_and_a_conversation(write: Make, asked: Make):
    path = write(
        asked(1, "A?", conversation="c"),
        asked(2, "B?", conversation="c"),
        asked(3, "C?", conversation="c"),
        feedback(span=1, trace=1, score=1.0),
        feedback(trace=2, label="thumbs_down", comment="no"),
        # Said of the conversation before the third turn began: the second is meant.
        feedback(conversation="c", at=2.5, score=1.0, user="other"),
    )
    found = rows(path)
    assert [found[query].get("reward") for query in ("A?", "B?", "C?")] == [1.0, 0.5, None]
    assert found["B?"]["feedback"][1]["comment"] == "no"


def test_feedback_on_a_call_of_the_model_is_on_the_turn(write: Make, asked: Make, span: Make):
    assert rows(write(asked(1, "A?"), span(1, 2, parent=1, name="chat"), feedback(span=2, score=0.25)))["A?"]["reward"] == 0.25


def test_feedback_may_come_before_the_trace(write: Make, asked: Make):
    assert rows(write(feedback(trace=1, score=1.0), asked(1, "A?")))["A?"]["reward"] == 1.0


def test_the_last_word_of_a_user_counts():
    said = [
        Annotation(score=1.0, time_ns=3),
        Annotation(score=0.0, time_ns=1),
        Annotation(score=0.5, time_ns=2, user="other"),
    ]
    assert [one.score for one in last_words(said)] == [0.5, 1.0]


@pytest.mark.parametrize(("label", "score"), [("Thumbs Up", 1.0), ("thumbs-down", 0.0), ("correct", 1.0), ("so so", None)])
def test_a_label_that_means_a_score(label: str, score: float | None):
    assert with_score(Annotation(label=label)).score == score


def test_a_disliked_answer_is_no_reference(write: Make, asked: Make):
    found = rows(write(asked(1, "A?", "wrong"), feedback(trace=1, label="thumbs_down")))["A?"]
    assert "answer" not in found
    assert (found["rejected_answer"], found["reward"]) == ("wrong", 0.0)


def test_a_correction_is_the_reference(write: Make, asked: Make):
    found = rows(write(asked(1, "A?", "wrong"), feedback(trace=1, score=0.0, correction="right")))["A?"]
    assert (found["answer"], found["rejected_answer"]) == ("right", "wrong")


def test_a_correction_is_an_answer_where_there_was_none(write: Make, asked: Make):
    assert rows(write(asked(1, "A?", None), feedback(trace=1, correction="right")))["A?"]["answer"] == "right"


def test_a_judgement_of_an_llm_is_not_a_users(write: Make, asked: Make):
    assert "reward" not in rows(write(asked(1, "A?"), feedback(trace=1, score=0.0, annotator="llm")))["A?"]


def test_a_span_may_say_it_of_itself(write: Make, asked: Make):
    event = {"name": "user_feedback", "attributes": [{"key": "thumbs", "value": {"stringValue": "up"}}]}
    attribute = asked(2, "B?")
    attribute["attributes"].append({"key": "feedback.score", "value": {"doubleValue": 0.25}})
    found = rows(write(asked(1, "A?", events=[event]), attribute))
    assert (found["A?"]["reward"], found["B?"]["reward"]) == (1.0, 0.25)


def test_feedback_on_nothing_that_is_there_is_counted(write: Make, asked: Make):
    path = write(asked(1, "A?"), feedback(trace=7, score=1.0))
    done = run_command("trace", "import", path, "--out", "tasks.jsonl", "--json", cwd=path.parent)
    counts = json.loads(done.out)
    assert (counts["annotations"], counts["unmatched_annotations"], counts["tasks_with_feedback"]) == (1, 1, 0)


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ((), {"liked", "disliked", "labelled", "silent"}),
        (("--min-score=0.5",), {"liked", "silent"}),
        (("--min-score=0.5", "--with-feedback"), {"liked"}),
        (("--max-score=0.5", "--with-feedback"), {"disliked"}),
        (("--label=useful", "--with-feedback"), {"labelled"}),
    ],
)
def test_filters_by_feedback(write: Make, asked: Make, arguments: tuple[str, ...], kept: set[str]):
    path = write(
        *(asked(number, query) for number, query in enumerate(("liked", "disliked", "labelled", "silent"), 1)),
        feedback(trace=1, score=1.0),
        feedback(trace=2, score=0.0),
        feedback(trace=3, label="Useful"),
    )
    assert rows(path, *arguments).keys() == kept


def test_of_duplicates_the_best_liked_is_kept(write: Make, asked: Make):
    path = write(
        asked(1, "What is it?", "first"),
        asked(2, "what  is it", "second"),
        asked(3, "What is it?", "third"),
        feedback(trace=2, score=1.0),
        feedback(trace=3, score=0.0),
    )
    assert [metadata["answer"] for metadata in rows(path).values()] == ["second"]
