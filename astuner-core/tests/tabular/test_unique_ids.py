from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from astuner.shared.tabular.task_rows import Row, UniqueIds, make_tasks


@given(st.lists(st.text(max_size=8)))
def test_a_string_is_seen_exactly_from_its_second_time_on(texts: list[str]) -> None:
    ids = UniqueIds()
    assert [ids.add(text) for text in texts] == [text in texts[:i] for i, text in enumerate(texts)]


def test_a_collision_of_hashes_is_not_taken_for_a_duplicate() -> None:
    colliding = ("17612872", "18158534")
    ids = UniqueIds()
    assert [ids.add(text) for text in colliding] == [False, True]

    def rows() -> Iterator[Row]:
        return (Row(f"row {name}", {"id": name, "question": "q"}) for name in colliding)

    assert [task.task_id for task in make_tasks(rows)] == list(colliding)
