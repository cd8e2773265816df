"""Rows without a query, and rows that repeat others."""

from __future__ import annotations

import pytest

from astuner.contract.errors import DataError
from astuner.shared.tabular.task_rows import Row, make_tasks

PUZZLES = [{"target": 10}, {"target": 12}, {"target": 10}]


def rows(values):
    return lambda: (Row(f"data:{line}", value) for line, value in enumerate(values, 1))


def test_a_row_without_a_query_gets_the_default_one_and_keeps_its_columns():
    [task] = make_tasks(rows([{"target": 10}]), default_query="a puzzle")
    assert (task.main_query, task.metadata) == ("a puzzle", {"target": 10})


def test_a_row_with_a_query_keeps_it():
    assert [task.main_query for task in make_tasks(rows([{"question": "2+2?"}]), default_query="none")] == ["2+2?"]


def test_without_a_default_query_it_is_refused_with_both_remedies():
    with pytest.raises(DataError, match=r"data:1: no query: .*main_query: NAME.*default_query"):
        list(make_tasks(rows([{"target": 10}])))


def test_a_row_that_an_environment_plays_needs_no_query():
    [task] = make_tasks(rows([{"secret": 7, "env_type": "guessing"}]))
    assert (task.main_query, task.env_type, task.metadata) == ("", "guessing", {"secret": 7})


def test_a_row_that_repeats_another_is_kept_on_request_and_its_id_does_not_change():
    def read_ids():
        return [task.task_id for task in make_tasks(rows(PUZZLES), default_query="a puzzle", keep_repeats=True)]

    first, second, third = read_ids()
    assert len({first, second, third}) == 3
    assert third == f"{first}-2"
    assert read_ids() == [first, second, third]


def test_ids_of_the_data_stay_unique_even_then():
    with pytest.raises(DataError, match="already that of data:1"):
        list(make_tasks(rows([{"id": 1, "query": "a"}, {"id": 1, "query": "b"}]), keep_repeats=True))
