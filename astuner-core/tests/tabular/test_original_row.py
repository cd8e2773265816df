"""A task that was made of a row gives the row back, under the names that its columns had."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.schema import Task
from astuner.episodes.rollout.steady_tasks import TaskDigest, digest_task, digest_tasks
from astuner.runs.store.codec import dump_task, load_task
from astuner.shared.tabular.original_row import restore_row
from astuner.shared.tabular.task_rows import Row, make_tasks

SAID = [{"role": "user", "content": "2 + 2?"}]
TALKED = [{"role": "system", "content": "Be brief."}, *SAID, {"role": "assistant", "content": "5"}, *SAID]
IN_PARTS = [{"role": "user", "name": "Ann", "content": [{"type": "text", "text": "2 + 2?"}]}]


def digest(tasks: Iterable[Task]) -> TaskDigest:
    return digest_tasks((task.task_id, digest_task(task)) for task in tasks)[0]


def make_task(values: dict[str, Any], columns: dict[str, str] | None = None) -> Task:
    [task] = make_tasks(lambda: iter([Row("rows.jsonl:1", values)]), columns)
    return task


@pytest.mark.parametrize(
    ("values", "columns"),
    [
        ({"question": "2 + 2?", "answer": "4"}, None),
        ({"query": "2 + 2?", "id": "seven"}, None),
        ({"main_query": "2 + 2?", "task_id": "seven", "env_type": "shop"}, None),
        ({"prompt": "2 + 2?", "id": 7}, None),
        ({"question": "2 + 2?", "id": 7.5}, None),
        ({"question": "2 + 2?", "id": 0}, None),
        ({"prompt": SAID, "answer": "4"}, None),
        ({"messages": SAID, "info_truth": None}, None),
        ({"question": "2 + 2?", "messages": SAID}, None),
        ({"init_messages": SAID}, None),
        ({"prompt": TALKED, "answer": "4"}, None),
        ({"prompt": TALKED}, {"init_messages": "prompt"}),
        ({"prompt": IN_PARTS}, None),
        ({"question": "", "messages": SAID}, None),
        ({"question": "2 + 2?", "query": "another column", "prompt": "a third"}, None),
        ({"asked": "2 + 2?", "solution": "4", "uid": 3}, {"main_query": "asked", "answer": "solution", "task_id": "uid"}),
        ({"asked": SAID, "task_id": "x", "uid": "y"}, {"main_query": "asked", "task_id": "uid"}),
        ({"question": "2 + 2?", "metadata": {"level": 3}}, None),
        ({"question": "2 + 2?", "about": {"level": 3}}, {"metadata": "about"}),
    ],
)
def test_every_column_is_there_under_its_own_name(values: dict[str, Any], columns: dict[str, str] | None):
    stored = load_task(dump_task(make_task(values, columns)))
    row = restore_row(stored)
    assert {name: row[name] for name in values} == values
    assert (row["main_query"], row["task_id"] != "") == (values.get("main_query", stored.main_query), True)


NAMES = st.sampled_from(
    ("question", "query", "prompt", "main_query", "id", "task_id", "answer", "note", "env_type", "data_source")
)
TEXTS = st.text("ab \n", min_size=1).filter(str.strip)


@given(st.dictionaries(NAMES, TEXTS | st.integers(), min_size=1), TEXTS)
def test_any_row_is_restored(values: dict[str, Any], query: str):
    queries = ("main_query", "query", "question", "prompt")
    values = {name: str(value) if name in (*queries, "env_type") else value for name, value in values.items()}
    values = {"question": query, **values}
    row = restore_row(make_task(values))
    assert {name: row[name] for name in values} == values


def test_a_task_that_was_not_made_of_a_row_is_its_metadata_and_messages():
    task = Task("2 + 2?", init_messages=SAID, task_id="t", env_type="shop", metadata={"answer": "4"})
    expected = {"main_query": "2 + 2?", "task_id": "t", "init_messages": SAID, "env_type": "shop", "answer": "4"}
    assert restore_row(task) == expected


def test_the_names_of_columns_change_no_digest_and_are_stored_only_if_needed():
    task = make_task({"question": "2 + 2?", "answer": "4"})
    without = evolve(task, columns={})
    assert digest([task]) == digest([without])
    assert task == without
    assert dump_task(task)["columns"] == {"question": "main_query"}
    assert "columns" not in dump_task(without)
    assert "columns" not in dump_task(make_task({"main_query": "2 + 2?", "task_id": "t", "answer": "4"}))
