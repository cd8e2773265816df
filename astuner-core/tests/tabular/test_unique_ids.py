from __future__ import annotations

from collections.abc import Iterator

import pytest

from astuner.contract.errors import DataError
from astuner.shared.tabular import task_rows
from astuner.shared.tabular.task_rows import Row, make_tasks


def rows() -> Iterator[Row]:
    return (Row(f"row {name}", {"id": name, "question": "q"}) for name in ("one", "two", "three"))


def test_a_collision_of_hashes_is_not_taken_for_a_duplicate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_rows, "hash", lambda text: 0, raising=False)
    assert [task.task_id for task in make_tasks(rows)] == ["one", "two", "three"]
    with pytest.raises(DataError, match="row two: task id 'two' is already that of row two"):
        list(make_tasks(lambda: iter([*rows(), Row("row two", {"id": "two", "question": "q"})])))
