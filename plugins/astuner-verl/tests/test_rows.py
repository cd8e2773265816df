"""From samples to rows, and rows to workers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.schema import Sample
from astuner_verl.rows import balance, train_row


def sample(ids: list[int], trained: list[int]) -> Sample:
    mask = np.zeros(len(ids), bool)
    mask[trained] = True
    return Sample(
        episode_id="e",
        task_id="t",
        repeat=0,
        agent="agent",
        ids=np.array(ids, np.int32),
        mask=mask,
        logprobs=np.arange(len(ids), dtype=np.float32),
        calls=(0,),
    )


def test_a_row_ends_with_its_last_trained_token_and_starts_with_its_first() -> None:
    row = train_row(sample([1, 2, 3, 4, 5, 6], [2, 4]), 0.5, 0.1)
    assert (row.ids.tolist(), row.start, row.mask.tolist(), row.logprobs.tolist()) == ([1, 2, 3, 4, 5], 2, [1, 0, 1], [2, 0, 4])


def test_a_row_without_a_prefix_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing precedes it"):
        train_row(sample([1, 2], [0]))


lengths = st.lists(st.integers(1, 500), min_size=1, max_size=60)


@given(lengths, st.integers(1, 9))
def test_every_row_is_given_to_one_worker_and_all_get_as_many(sizes: list[int], workers: int) -> None:
    order = balance(sizes, workers)
    assert sorted(place for place in order if place is not None) == list(range(len(sizes)))
    assert len(order) % workers == 0
    assert order.count(None) < workers


@given(lengths, st.integers(1, 9))
def test_no_worker_has_much_more_to_do_than_another(sizes: list[int], workers: int) -> None:
    order = balance(sizes, workers)
    size = len(order) // workers
    loads = [
        sum(sizes[place] for place in order[part * size : (part + 1) * size] if place is not None) for part in range(workers)
    ]
    # Parts have equally many rows, so the one that is filled up last may have to take a long one.
    assert max(loads) - min(loads) <= 2 * max(sizes)


def test_rows_in_memory_that_cannot_be_written_to_are_copied(recwarn: pytest.WarningsRecorder) -> None:
    pytest.importorskip("verl")
    from astuner_verl.rows import to_tensors

    row = train_row(sample([1, 2, 3], [1, 2]), 0.5, 0.1)
    # As Ray hands them to a worker.
    for array in (row.ids, row.mask, row.logprobs, row.advantages):
        array.flags.writeable = False
    tensors = to_tensors([row], [0, None])
    tensors["input_ids"].values().add_(1)
    assert row.ids.tolist() == [1, 2, 3]
    assert [str(one.message) for one in recwarn if "not writable" in str(one.message)] == []
