"""What users say becomes a reward, a reference answer, or a reason to leave a task out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit.command_line import run_command
from astuner_tracing.annotations import add_score, merge_annotations
from astuner_tracing.records import Annotation
from astuner_tracing.tasks import Candidate, add_feedback

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
        Annotation(score=1.0, time_ns=3, user="one"),
        Annotation(score=0.0, time_ns=1, user="one"),
        Annotation(score=0.5, time_ns=2, user="other"),
    ]
    assert [one.score for one in merge_annotations(said)] == [0.5, 1.0]


def test_a_comment_takes_no_thumb_back():
    said = [
        Annotation(score=0.0, label="thumbs_down", time_ns=1, user="one"),
        Annotation(correction="42", time_ns=2, user="one"),
        Annotation(comment="Look it up.", time_ns=3, user="one"),
    ]
    (all_of_it,) = merge_annotations(said)
    assert (all_of_it.score, all_of_it.label, all_of_it.comment) == (0.0, "thumbs_down", "Look it up.")
    assert (all_of_it.correction, all_of_it.time_ns) == ("42", 3)


def test_a_score_without_a_label_does_not_keep_the_label_of_another_score():
    said = [Annotation(score=0.0, label="thumbs_down", time_ns=1, user="one"), Annotation(score=1.0, time_ns=2, user="one")]
    assert [(one.score, one.label) for one in merge_annotations(said)] == [(1.0, None)]


def test_those_who_give_no_name_are_not_taken_for_one():
    down, up = Annotation(score=0.0, time_ns=1), Annotation(score=1.0, time_ns=2)
    assert merge_annotations([up, down, up]) == [down, up]


def test_a_disliked_answer_stays_disliked_after_a_comment(write: Make, asked: Make):
    thumb, comment = (feedback(trace=1, at=at, user="u", **said) for at, said in ((5, {"score": 0.0}), (6, {"comment": "No!"})))
    found = rows(write(asked(1, "A?", "wrong"), thumb, comment))["A?"]
    assert ("answer" in found, found["rejected_answer"], found["reward"]) == (False, "wrong", 0.0)
    assert [one["comment"] for one in found["feedback"]] == ["No!"]


def test_the_latest_correction_is_the_reference_whoever_spoke_after_it(write: Make, asked: Make):
    path = write(
        asked(1, "A?", "wrong"),
        feedback(trace=1, at=5, user="one", correction="also wrong"),
        feedback(trace=1, at=6, user="two", correction="right"),
        feedback(trace=1, at=7, user="one", comment="Hm."),
    )
    assert rows(path)["A?"]["answer"] == "right"


def test_a_rating_is_no_share(write: Make, asked: Make):
    event = {"name": "user_feedback", "attributes": [{"key": "rating", "value": {"intValue": "1"}}]}
    found = rows(write(asked(1, "A?", events=[event])))["A?"]
    assert "reward" not in found
    assert [one["label"] for one in found["feedback"]] == ["rating 1"]


def test_feedback_does_not_slide_to_a_neighbour_of_a_turn_that_is_no_task(write: Make, asked: Make, span: Make):
    silent = span(3, 3, at=3, attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "c"})
    path = write(
        asked(1, "A?", conversation="c"),
        asked(2, " ", conversation="c"),
        silent,
        feedback(conversation="c", at=2.5, score=0.0),
        feedback(conversation="c", at=3.5, score=0.0),
    )
    assert "reward" not in rows(path)["A?"]


def test_feedback_does_not_slide_to_another_agent(write: Make, asked: Make):
    other = asked(2, "B?", conversation="c")
    other["attributes"][1]["value"]["stringValue"] = "planner"
    path = write(asked(1, "A?", conversation="c"), other, feedback(conversation="c", score=0.0))
    found = rows(path, "--agent=friday")
    assert found.keys() == {"A?"}
    assert "reward" not in found["A?"]


def test_a_span_of_no_turn_stands_for_its_trace_only_where_that_has_one_turn(write: Make, asked: Make, span: Make):
    inside = {"traceId": f"{1:032x}", "parentSpanId": f"{9:016x}"}
    root = span(1, 9, name="session")
    path = write(root, asked(1, "A?") | inside, asked(2, " ") | inside, feedback(span=9, score=0.0))
    assert "reward" not in rows(path)["A?"]


def test_a_correction_of_a_trace_is_of_its_last_turn(write: Make, asked: Make, span: Make):
    inside = {"traceId": f"{1:032x}", "parentSpanId": f"{9:016x}"}
    path = write(
        span(1, 9, name="session"),
        asked(1, "A?", "one") | inside,
        asked(2, "B?", "two") | inside,
        feedback(trace=1, score=1.0, correction="right"),
    )
    found = rows(path)
    assert [(found[query]["answer"], found[query]["reward"]) for query in ("A?", "B?")] == [("one", 1.0), ("right", 1.0)]


@pytest.mark.parametrize(("label", "score"), [("Thumbs Up", 1.0), ("thumbs-down", 0.0), ("correct", 1.0), ("so so", None)])
def test_a_label_that_means_a_score(label: str, score: float | None):
    assert add_score(Annotation(label=label)).score == score


def test_a_disliked_answer_is_no_reference(write: Make, asked: Make):
    found = rows(write(asked(1, "A?", "wrong"), feedback(trace=1, label="thumbs_down")))["A?"]
    assert "answer" not in found
    assert (found["rejected_answer"], found["reward"]) == ("wrong", 0.0)


def test_a_correction_is_the_reference(write: Make, asked: Make):
    found = rows(write(asked(1, "A?", "wrong"), feedback(trace=1, score=0.0, correction="right")))["A?"]
    assert (found["answer"], found["rejected_answer"]) == ("right", "wrong")


def test_a_correction_is_an_answer_where_there_was_none(write: Make, asked: Make):
    assert rows(write(asked(1, "A?", None), feedback(trace=1, correction="right")))["A?"]["answer"] == "right"


def test_a_correction_of_a_span_is_of_every_turn_that_it_belongs_to(write: Make, span: Make):
    asked = {"gen_ai.operation.name": "chat", "gen_ai.prompt": "A?", "gen_ai.completion": "wrong"}
    silent = span(1, 2, at=5, attributes={"gen_ai.operation.name": "invoke_agent"})
    path = write(span(1, 1, name="chat", attributes=asked), silent, feedback(span=2, correction="right"))
    assert rows(path)["A?"]["answer"] == "right"


def test_a_judgement_of_an_llm_is_not_a_users(write: Make, asked: Make):
    assert "reward" not in rows(write(asked(1, "A?"), feedback(trace=1, score=0.0, annotator="llm")))["A?"]


def test_a_span_may_say_it_of_itself(write: Make, asked: Make):
    event = {"name": "user_feedback", "attributes": [{"key": "thumbs", "value": {"stringValue": "up"}}]}
    attribute = asked(2, "B?")
    attribute["attributes"].append({"key": "feedback.score", "value": {"doubleValue": 0.25}})
    found = rows(write(asked(1, "A?", events=[event]), attribute))
    assert (found["A?"]["reward"], found["B?"]["reward"]) == (1.0, 0.25)


def test_a_thumb_is_a_score_whatever_label_comes_with_it(write: Make, asked: Make):
    said = [{"key": key, "value": {"stringValue": value}} for key, value in (("thumbs", "down"), ("label", "too long"))]
    attribute = asked(2, "B?", "wrong")
    attribute["attributes"] += [{**one, "key": f"feedback.{one['key']}"} for one in said]
    found = rows(write(asked(1, "A?", "wrong", events=[{"name": "feedback", "attributes": said}]), attribute))
    for query in ("A?", "B?"):
        assert ("answer" in found[query], found[query]["reward"]) == (False, 0.0)
        assert found[query]["feedback"][0]["label"] == "too long"


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


def test_of_duplicates_one_with_a_right_answer_is_kept_and_a_disliked_one_last(write: Make, asked: Make):
    path = write(
        asked(1, "A?", "bad"),
        asked(2, "A?", "unrated"),
        asked(3, "B?", "worse"),
        asked(4, "B?", None),
        asked(5, "B?", "corrected"),
        feedback(trace=1, score=0.25),
        feedback(trace=3, score=0.25),
        feedback(trace=5, score=0.0, correction="right"),
    )
    found = rows(path)
    assert (found["A?"]["answer"], found["B?"]["answer"]) == ("unrated", "right")


def test_tasks_without_a_right_answer_are_counted_and_warned_of(write: Make, asked: Make):
    path = write(asked(1, "A?", "wrong"), asked(2, "B?", "fine"), feedback(trace=1, score=0.0))
    done = run_command("trace", "import", path, "--out", "tasks.jsonl", cwd=path.parent)
    assert "1 tasks have no right answer" in done.out
    assert "math" in done.err
    counts = json.loads(run_command("trace", "import", path, "--out", "tasks.jsonl", "--json", cwd=path.parent).out)
    assert counts["tasks_without_answer"] == 1


GOOD, BAD = {"score": 0.9, "label": "pass"}, {"score": 0.6, "label": "fail"}


@pytest.mark.parametrize(
    ("evaluations", "is_reference"),
    [
        ([BAD], False),
        ([GOOD], True),
        ([{"score": 0.0}], False),
        ([{"score": 1.0}], True),
        ([{"label": "failed"}], False),
        ([{"score": 0.0, "annotator": "code"}], False),
        # The parts of a reward have no label, and say nothing of the whole.
        ([BAD, {"score": 1.0, "user": "format"}, {"score": 1.0, "user": "length"}], False),
        ([BAD, {"score": 1.0, "annotator": "human"}], True),
        ([GOOD, {"label": "thumbs_down", "annotator": "human"}], False),
        ([BAD, {"comment": "fine", "annotator": "human"}], False),
        ([{"comment": "no judgement"}], True),
    ],
)
def test_an_answer_whose_only_evaluation_is_bad_is_no_reference(
    write: Make, asked: Make, evaluations: list[dict[str, Any]], is_reference: bool
):
    said = [feedback(trace=1, **{"annotator": "llm", **one}) for one in evaluations]
    found = rows(write(asked(1, "A?"), *said))["A?"]
    assert ("answer" in found, "rejected_answer" in found) == (is_reference, not is_reference)


def test_the_label_of_an_evaluation_that_is_selected_says_more_than_its_score():
    candidate = Candidate(query="A?", answer="4", reference="4", source="s", trace_id="1", span_id="1", time_ns=0)
    for said, reference in ((BAD, None), (GOOD, "4")):
        judged = add_feedback(candidate, [Annotation(annotator="llm", **said)], good_from=0.5)
        assert (judged.reference, judged.reward) == (reference, said["score"])
