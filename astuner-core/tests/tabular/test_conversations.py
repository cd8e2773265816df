"""Rows whose prompt is a conversation: the last message is the query, and no task is played with an empty one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from astuner.contract.errors import DataError
from astuner.contract.schema import Split, Task
from astuner.contract.user_values.tasks import check_task
from astuner.episodes.rollout.environments.selection import EnvironmentChoice, TasksToPlay
from astuner.episodes.rollout.steady_tasks import SteadyTasks
from astuner.settings.plugins.catalog import Catalog
from astuner.shared.tabular import Row, make_tasks

ASKED = {"role": "user", "content": "What is 2 + 2?"}
SYSTEM = {"role": "system", "content": "Be brief."}
ANSWER = {"role": "assistant", "content": "4"}
EARLIER = [SYSTEM, {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]


def read(*rows: dict[str, Any], columns: dict[str, str] | None = None, **options: Any) -> list[Task]:
    return list(make_tasks(lambda: iter([Row(f"train.jsonl:{at}", row) for at, row in enumerate(rows, 1)]), columns, **options))


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ({"prompt": [*EARLIER, ASKED]}, None),
        ({"messages": [*EARLIER, ASKED], "prompt": ""}, None),
        ({"init_messages": [*EARLIER, ASKED], "question": "  "}, None),
        ({"conversation": [*EARLIER, ASKED]}, {"init_messages": "conversation"}),
        ({"conversation": [*EARLIER, ASKED]}, {"main_query": "conversation"}),
        ({"prompt": [*EARLIER, {"role": "user", "content": [{"type": "text", "text": "What is 2 + 2?"}]}]}, None),
    ],
)
def test_the_query_is_the_last_message_and_the_others_come_before_it(row: dict[str, Any], columns: dict[str, str] | None):
    [task] = read(row, columns=columns)
    assert task.main_query == "What is 2 + 2?"
    assert list(task.init_messages) == EARLIER
    assert task.messages == [*EARLIER, ASKED]


def test_messages_next_to_a_query_stay_as_they_are():
    [task] = read({"question": "What is 2 + 2?", "messages": [SYSTEM]})
    assert task.messages == [SYSTEM, ASKED]
    [task] = read({"question": "And now?", "messages": [SYSTEM, ASKED, ANSWER]})
    assert list(task.init_messages) == [SYSTEM, ASKED, ANSWER]


def test_the_query_is_not_said_twice_where_a_reader_gives_it_twice():
    assert Task("What is 2 + 2?", (SYSTEM, ASKED)).messages == [SYSTEM, ASKED]


@pytest.mark.parametrize(
    "messages",
    [
        [ASKED, ANSWER],
        [SYSTEM],
        [SYSTEM, {"role": "user", "content": " \n"}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": []}],
        [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, {"type": "image", "image": "a.png"}]}],
        [ASKED, {"role": "assistant", "content": "", "tool_calls": []}, {"role": "tool", "content": "4"}],
    ],
)
def test_a_row_whose_conversation_does_not_end_with_a_question_is_refused_by_its_place(messages: list[dict[str, Any]]):
    with pytest.raises(DataError, match=r"^train\.jsonl:2: its messages end with"):
        read({"prompt": [ASKED]}, {"prompt": messages})
    with pytest.raises(DataError, match=r"^task 'seven' \(train\): its messages end with"):
        check_task(Task(init_messages=messages, task_id="seven"), "train")
    [task] = read({"prompt": messages}, default_query="Play.")
    assert (task.main_query, list(task.init_messages)) == ("Play.", messages)


def test_messages_of_any_reader_are_split():
    task, _ = check_task(Task(init_messages=[SYSTEM, ASKED], task_id="seven"), "train")
    assert (task.main_query, task.init_messages) == ("What is 2 + 2?", (SYSTEM,))


class Yields:
    def __init__(self, *tasks: Task) -> None:
        self._tasks = tasks

    def read(self, split: Split) -> Iterator[Task]:
        return iter(self._tasks if split == "train" else ())


@pytest.mark.parametrize("choice", [None, EnvironmentChoice()], ids=["no environment", "environments by task"])
def test_a_task_with_neither_is_refused_by_name(choice: EnvironmentChoice | None):
    tasks = Yields(Task("q", task_id="six"), Task(" ", task_id="seven", metadata={"answer": "4"}))
    with pytest.raises(DataError, match=r"^task 'seven' \(train\) has neither a main_query nor init_messages"):
        SteadyTasks(tasks, [TasksToPlay(choice, Catalog()).check])


def test_a_task_of_an_environment_needs_neither():
    tasks = SteadyTasks(Yields(Task(task_id="seven", env_type="a_game")), [TasksToPlay(None, Catalog()).check])
    assert [task.task_id for task in tasks.read("train")] == ["seven"]


@pytest.mark.parametrize(
    "text", ['[{"role": "user", "content": "Q?"}]', "[{'role': 'user', 'content': 'Q?'}]", ' [ {"from": "human"}]']
)
def test_messages_written_as_text_are_no_question(text: str):
    with pytest.raises(DataError, match=r"^train.jsonl:1: the query is a text that holds a list of messages: .*`json_columns`$"):
        read({"prompt": text})


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": [{"role": "user", "content": "<image>What is it?"}], "images": ["a.png"]},
        {"question": "<video>What is it?", "video": "a.mp4"},
        {"prompt": [ASKED], "images": [{"bytes": None, "path": "a.png"}]},
    ],
)
def test_a_question_about_an_image_is_refused(row: dict[str, Any]):
    with pytest.raises(
        DataError, match=r"^train.jsonl:1: column '(images|video)' belongs to the question, of which only the text"
    ):
        read(row)


def test_an_address_of_an_image_is_data_like_any_other():
    assert read({"question": "What does it cost?", "image": "https://example.org/a.png"})[0].metadata["image"].endswith("a.png")
    assert read({"prompt": [ASKED], "images": []})[0].main_query == "What is 2 + 2?"
