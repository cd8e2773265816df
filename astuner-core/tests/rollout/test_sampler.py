from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.errors import ConfigError, RunFailed
from astuner.contract.schema import Task
from astuner.episodes.rollout import sampler as module
from astuner.episodes.rollout.sampler import TaskSampler


class Rows:
    def __init__(self, count: int) -> None:
        self.count, self.reads = count, 0

    def read(self, split):
        self.reads += 1
        return (Task(task_id=str(i)) for i in range(self.count if split == "train" else 2))


def ids(tasks):
    return [task.task_id for task in tasks]


def sampler(count=20, batch=4, epochs=3, seed=1, **more):
    return TaskSampler(Rows(count), batch_size=batch, epochs=epochs, seed=seed, **more)


def test_every_task_of_an_epoch_is_seen_once():
    found = sampler()
    assert Counter(i for step in range(1, 6) for i in ids(found.batch(step))) == Counter(map(str, range(20)))


def test_an_unshuffled_run_carries_the_remainder_over_into_the_next_epoch():
    found = sampler(count=5, batch=2, epochs=2, shuffle=False)
    assert found.total_steps == 5
    drawn = [ids(found.batch(step)) for step in range(1, 6)]
    assert drawn == [["0", "1"], ["2", "3"], ["4", "0"], ["1", "2"], ["3", "4"]]


@given(st.integers(1, 40), st.integers(1, 8), st.integers(1, 5))
def test_an_unshuffled_run_trains_every_task_equally_often_but_for_one_batch(count, batch, epochs):
    batch = min(batch, count)
    found = sampler(count, batch, epochs, shuffle=False)
    times = Counter(i for step in range(1, found.total_steps + 1) for i in ids(found.batch(step)))
    left_over = epochs * count - times.total()
    assert 0 <= left_over < batch
    assert {times[str(i)] for i in range(count)} <= {epochs - 1, epochs}


def test_epochs_come_in_different_orders():
    found = sampler()
    assert [ids(found.batch(s)) for s in range(1, 6)] != [ids(found.batch(s)) for s in range(6, 11)]


def test_the_remainder_of_an_epoch_is_dropped():
    assert sampler(count=11, batch=4, epochs=2).total_steps == 4


@given(st.integers(4, 40), st.integers(1, 4), st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(0, 3))
def test_a_batch_depends_on_the_step_alone(count, batch, visits, seed):
    straight = sampler(count, batch, seed=seed)
    in_order = {step: ids(straight.batch(step)) for step in range(1, 13)}
    jumping = sampler(count, batch, seed=seed)
    assert [ids(jumping.batch(step)) for step in visits] == [in_order[step] for step in visits]


def test_a_split_larger_than_the_window_is_shuffled_and_complete(monkeypatch):
    monkeypatch.setattr(module, "SHUFFLE_WINDOW", 8)
    found = sampler(count=40, batch=4)
    drawn = [i for step in range(1, 11) for i in ids(found.batch(step))]
    assert sorted(drawn, key=int) == list(map(str, range(40)))
    assert drawn != sorted(drawn, key=int)


def test_further_draws_bring_tasks_that_the_step_does_not_hold():
    found = sampler()
    first, second, third = (set(ids(found.batch(2, draw))) for draw in range(3))
    assert len(first | second | third) == 12


def test_a_further_draw_does_not_move_the_stream():
    found = sampler()
    found.batch(1)
    found.batch(1, 1)
    assert ids(found.batch(2)) == ids(sampler().batch(2))


@given(
    st.integers(4, 40), st.integers(1, 4), st.lists(st.tuples(st.integers(1, 12), st.integers(0, 4)), max_size=8), st.booleans()
)
def test_a_further_draw_depends_on_step_and_draw_alone(count, batch, visits, shuffle):
    jumping = sampler(count, batch, shuffle=shuffle)
    fresh = [ids(sampler(count, batch, shuffle=shuffle).batch(*visit)) for visit in visits]
    assert [ids(jumping.batch(*visit)) for visit in visits] == fresh


@given(st.integers(4, 40), st.integers(1, 4), st.integers(1, 12), st.booleans())
def test_the_draws_of_a_step_give_every_task_once(count, batch, step, shuffle):
    found = sampler(count, batch, shuffle=shuffle)
    drawn = Counter(task for draw in range(count + 1) for task in ids(found.batch(step, draw)))
    assert drawn == Counter(map(str, range(count)))


def test_further_draws_reach_the_whole_of_a_split_larger_than_the_window(monkeypatch):
    monkeypatch.setattr(module, "SHUFFLE_WINDOW", 8)
    found = sampler(count=400, batch=4, max_draws=2)
    drawn = {int(i) for step in range(1, 101) for draw in (1, 2) for i in ids(found.batch(step, draw))}
    assert len(drawn) > 380


def test_unshuffled_further_draws_go_on_behind_the_batch():
    found = sampler(count=10, batch=2, shuffle=False)
    assert [ids(found.batch(4, draw)) for draw in range(3)] == [["6", "7"], ["8", "9"], ["0", "1"]]


def test_draws_of_successive_steps_read_the_split_no_more_often_than_its_epochs():
    rows = Rows(40)
    found = TaskSampler(rows, batch_size=4, epochs=1, seed=1, max_draws=3)
    for step in range(1, 10):
        found.batch(step)
        found.batch(step, 1)
        found.batch(step, 3)
    # Both splits to count them, one epoch of batches, and three of draws.
    assert rows.reads == 6


def test_fewer_tasks_than_a_batch_is_a_configuration_error():
    with pytest.raises(ConfigError, match=r"train_batch_size: 4 tasks per step, but the training split has 3"):
        _ = sampler(count=3).total_steps


def test_total_training_steps_win_over_epochs():
    assert sampler(total_steps=7).total_steps == 7


class Replaced:
    """Tasks that are others when they are read again."""

    def __init__(self, *readings: str) -> None:
        self.readings = list(readings)

    def read(self, split: str) -> Iterator[Task]:
        names = "" if split == "validation" else self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        yield from (Task(main_query=f"{name}?", task_id=name) for name in names)


@pytest.mark.parametrize(
    ("later", "what"),
    [("abXd", "task 3, 'X', is another one"), ("ab", "they end after task 2"), ("abcde", "task 5, 'e', is another one")],
)
def test_tasks_that_were_replaced_since_they_were_digested_are_not_played(later: str, what: str) -> None:
    sampler = TaskSampler(Replaced("abcd", later), batch_size=2, epochs=1, seed=0, shuffle=False)  # type: ignore[arg-type]
    assert [task.task_id for task in sampler.batch(1)] == ["a", "b"]
    with pytest.raises(RunFailed, match=f"the train tasks have changed since this start read them: {what}"):
        [sampler.batch(step) for step in (2, 3)]
