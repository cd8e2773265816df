"""Which side a task is on is a rule, and conversations stay together."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astuner_devkit.command_line import run_command

Make = Callable[..., Any]


def split(path: Path, *arguments: object) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    both = ("--out", "train.jsonl", "--validation-out", "validation.jsonl")
    done = run_command("trace", "import", path, *arguments, *both, cwd=path.parent)
    assert done.code == 0, done.err
    train, validation = (
        [json.loads(line) for line in (path.parent / f"{name}.jsonl").read_text().splitlines()]
        for name in ("train", "validation")
    )
    return train, validation


def conversations(rows: Sequence[dict[str, Any]]) -> set[str]:
    return {row["metadata"]["conversation_id"] for row in rows}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(of=st.lists(st.integers(0, 8), min_size=1, max_size=20), fraction=st.floats(0.05, 0.95))
def test_a_conversation_is_on_one_side(write: Make, asked: Make, of: list[int], fraction: float):
    path = write(*(asked(number, f"Question {number}?", conversation=f"c{one}") for number, one in enumerate(of, 1)))
    train, validation = split(path, "--validation-fraction", fraction)
    assert len(train) + len(validation) == len(of)
    assert not conversations(train) & conversations(validation)


def test_the_share_is_met_and_more_traces_move_nothing(write: Make, asked: Make):
    spans = [asked(number, f"Question {number}?", conversation=f"c{number}") for number in range(1, 401)]
    _, some = split(write(*spans[:200]), "--validation-fraction=0.25")
    train, all_of_them = split(write(*spans), "--validation-fraction=0.25")
    assert 0.15 < len(all_of_them) / 400 < 0.35
    assert {row["task_id"] for row in some} <= {row["task_id"] for row in all_of_them}
    assert not {row["task_id"] for row in some} & {row["task_id"] for row in train}


def test_nothing_that_is_trained_on_is_later_than_the_time(write: Make, asked: Make):
    at = {1: "c1", 2: "c2", 3: "c1", 4: "c3", 5: "c4"}
    path = write(*(asked(number, f"Question {number}?", conversation=one) for number, one in at.items()))
    # The spans begin at 11:06:40 plus their number; the conversation c1 goes on past the time.
    train, validation = split(path, "--validation-after=2026-11-18T11:06:43+00:00")
    assert [row["main_query"] for row in train] == ["Question 2?"]
    assert [row["main_query"] for row in validation] == ["Question 1?", "Question 3?", "Question 4?", "Question 5?"]


def test_within_one_conversation_only_when_asked_for(write: Make, asked: Make):
    path = write(*(asked(number, f"Question {number}?", conversation="all of it") for number in range(1, 41)))
    together = run_command(
        "trace", "import", path, "--validation-fraction=0.3", "--out=t.jsonl", "--validation-out=v.jsonl", cwd=path.parent
    )
    assert together.code == 0
    assert "validation_by: task" in together.err
    train, validation = split(path, "--validation-fraction=0.3", "--validation-by=task")
    assert train
    assert validation


@pytest.mark.parametrize(
    "arguments",
    [
        ("--validation-fraction=0.2",),
        ("--validation-out=v.jsonl",),
        ("--validation-fraction=0.2", "--validation-after=2026-01-01"),
    ],
)
def test_half_a_rule_is_refused(write: Make, asked: Make, arguments: tuple[str, ...]):
    path = write(asked(1, "A?"))
    more = ("--validation-out=v.jsonl",) if len(arguments) == 2 else ()
    assert run_command("trace", "import", path, "--out=t.jsonl", *arguments, *more, cwd=path.parent).code == 2
    assert not (path.parent / "t.jsonl").exists()


def test_without_an_id_the_first_question_names_the_conversation(write: Make, span: Make):
    def said(*texts: str) -> str:
        return json.dumps([{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)])

    def call(number: int, *texts: str) -> dict[str, Any]:
        asked = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": said(*texts), "gen_ai.completion": "Done."}
        return span(number, number, name="chat", at=number, attributes=asked)

    spans = [call(10 * n + k, *[f"First {n}?", "Done.", f"Second {n}?"][: 2 * k - 1]) for n in range(1, 21) for k in (1, 2)]
    train, validation = split(write(*spans), "--validation-fraction=0.5")
    numbers = [{int("".join(filter(str.isdecimal, row["main_query"]))) for row in rows} for rows in (train, validation)]
    assert all(numbers)
    assert not numbers[0] & numbers[1]
    assert len(train) + len(validation) == 40


def test_what_is_left_out_moves_nothing_to_another_side(write: Make, asked: Make):
    spans = []
    for number in range(1, 41):
        spans += [asked(2 * number, f"First {number}?", conversation=f"c{number}")]
        spans += [asked(2 * number + 1, f"Second {number}?", conversation=f"c{number}")]
    _, before = split(write(*spans), "--validation-fraction=0.5")
    # Now the first turns have no answer, and are no tasks.
    for one in spans[::2]:
        one["attributes"] = [pair for pair in one["attributes"] if pair["key"] != "gen_ai.output.messages"]
    _, after = split(write(*spans), "--validation-fraction=0.5")
    assert {row["main_query"] for row in after} == {row["main_query"] for row in before if "Second" in row["main_query"]}


def test_a_duplicate_that_is_liked_later_stays_on_the_side_of_the_first(write: Make, asked: Make):
    def liked(number: int) -> dict[str, Any]:
        return {"events": [{"name": "user_feedback", "attributes": [{"key": "thumbs", "value": {"stringValue": "up"}}]}]}

    def spans(*, later: bool) -> list[dict[str, Any]]:
        made = []
        for number in range(1, 31):
            made += [asked(3 * number, f"Opening {number}?", conversation=f"c{number}")]
            made += [asked(3 * number + 1, f"Shared {number}?", conversation=f"c{number}")]
            if later:
                made += [asked(3 * number + 2, f"shared {number}", conversation=f"c{number % 30 + 1}", at=200, **liked(number))]
        return made

    for more in ((), ("--similarity=0.99",)):
        _, before = split(write(*spans(later=False)), "--validation-fraction=0.5", *more)
        train, after = split(write(*spans(later=True)), "--validation-fraction=0.5", *more)
        assert len(train) + len(after) == 60
        assert {row["main_query"].casefold().strip("?") for row in after} == {
            row["main_query"].casefold().strip("?") for row in before
        }
        assert any("shared" in row["main_query"] for row in after)
