"""The contract of readers: the same tasks, in the same order, every time."""

from __future__ import annotations

import json
import pickle
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, cast

from astuner.contract.protocols import ReaderTraits, read_traits
from astuner.contract.schema import Split, Task
from astuner_devkit.contracts.base import Contract, self_contained
from astuner_devkit.contracts.shape import assert_method, forbid_errors

SPLITS: Sequence[Split] = ("train", "validation")

MATERIALISED: tuple[type[Any], ...] = (list, tuple, type(iter([])), type(iter(())))
"""Iterators over these hold all tasks in memory."""


class ReaderContract(Contract):
    """Rules for readers. Write the data in `prepare`, a few tasks for each of `splits`."""

    kind = "reader"
    splits: ClassVar[tuple[Split, ...]] = ("train",)
    """The splits that the options configure; every other one is empty."""

    @self_contained
    def test_it_is_a_reader(self) -> None:
        """A reader has `read(split)`, a plain method that returns an iterator."""
        doc = "It yields the tasks of 'train' or of 'validation'."
        assert_method(self.target(), "read", ["split"], blame=self._blame, doc=doc)

    def test_each_split_has_tasks(self, tmp_path: Path) -> None:
        """Each split that the options configure yields at least one `astuner.Task`, and nothing else."""
        for split, tasks in self._read_all(tmp_path).items():
            assert tasks, f"{self._place(split)} yielded nothing: write its data in `prepare`, or leave it out of `splits`"
            for number, task in enumerate(tasks):
                assert isinstance(task, Task), f"{self._place(split)} yielded {task!r:.80} as number {number}: yield astuner.Task"

    def test_the_order_is_the_same_every_time(self, tmp_path: Path) -> None:
        """Reading twice gives the same tasks in the same order: epochs and resumed runs rely on it."""
        reader = self.make(tmp_path)
        for split in self.splits:
            first, second = list(reader.read(split)), list(reader.read(split))
            self._assert_same(split, first, second, "when it was read again")

    def test_a_fresh_reader_reads_the_same(self, tmp_path: Path) -> None:
        """Another reader with the same options gives the same tasks, ids included: a resumed run makes a new one."""
        first, second = self._read_all(tmp_path), self._read_all(tmp_path)
        for split in self.splits:
            self._assert_same(split, first[split], second[split], "in a second reader")

    def test_ids_are_unique(self, tmp_path: Path) -> None:
        """Each task has an id that is unique in its split."""
        for split, tasks in self._read_all(tmp_path).items():
            seen: dict[str, int] = {}
            for number, task in enumerate(tasks):
                given = isinstance(task.task_id, str) and task.task_id != ""
                assert given, f"{self._place(split)}: task {number} has the id {task.task_id!r}; make one from its content"
                first = seen.setdefault(task.task_id, number)
                assert first == number, f"{self._place(split)}: tasks {first} and {number} share the id {task.task_id!r}"

    def test_tasks_are_read_lazily(self, tmp_path: Path) -> None:
        """`read` returns a lazy iterator: data may be larger than memory."""
        reader = self.make(tmp_path)
        for split in self.splits:
            found = reader.read(split)
            remedy = "make `read` a generator (`yield` each task)"
            assert not isinstance(found, MATERIALISED), (
                f"{self._place(split)} holds all tasks at once ({type(found).__name__}): {remedy}"
            )
            assert isinstance(found, Iterator), f"{self._place(split)} returned {found!r:.80}, which is not an iterator: {remedy}"

    def test_reading_again_begins_at_the_beginning(self, tmp_path: Path) -> None:
        """A second reading, started in the middle of a first, begins with the first task; neither affects the other."""
        expected = self._read_all(tmp_path)
        reader = self.make(tmp_path)
        for split in self.splits:
            first = iter(reader.read(split))
            begun = list(islice(first, 1))
            second = list(reader.read(split))
            self._assert_same(split, expected[split], second, "while it was being read")
            self._assert_same(split, expected[split], [*begun, *first], "after another reading had passed it")

    def test_reading_may_stop_early(self, tmp_path: Path) -> None:
        """One task can be taken and the rest left: the iterator closes without an error, and the reader can be read again."""
        expected = self._read_all(tmp_path)
        reader = self.make(tmp_path)
        for split in self.splits:
            started = iter(reader.read(split))
            next(started, None)
            close = getattr(started, "close", None)
            remedy = "release in `finally`, and let GeneratorExit pass"
            with forbid_errors(f"{self._place(split)}: leaving it after its first task", remedy):
                if close is not None:
                    close()
            self._assert_same(split, expected[split], list(reader.read(split)), "after it was left in the middle")

    def test_tasks_are_found_by_their_places(self, tmp_path: Path) -> None:
        """A reader that finds places yields the same tasks with them, makes each again of its place, and knows its data again."""
        reader = self.make(tmp_path)
        for split in self.splits if read_traits(reader, ReaderTraits).finds_places else ():
            places, expected, identity = array("Q"), list(reader.read(split)), reader.identify_tasks(split)
            self._assert_same(split, expected, list(reader.read_places(split, places)), "in read_places")
            again = self.make(tmp_path).identify_tasks(split)
            assert identity == again, f"{self._place(split)}: identify_tasks gave {identity!r}, and {again!r} in a second reader"
            if identity is not None:
                found = [reader.read_at(split, number, place) for number, place in enumerate(places)]
                self._assert_same(split, expected, found, "in read_at")

    def test_a_split_that_is_not_configured_is_empty(self, tmp_path: Path) -> None:
        """A split that the options do not configure yields nothing; it does not raise, since validation data are optional."""
        reader = self.make(tmp_path)
        for split in (split for split in SPLITS if split not in self.splits):
            remedy = "yield nothing when the split is not configured, or name it in `splits` of the contract"
            with forbid_errors(self._place(split), remedy):
                count = sum(1 for _ in reader.read(split))
            assert count == 0, f"{self._place(split)} yielded {count} tasks: {remedy}"

    def test_tasks_are_json(self, tmp_path: Path) -> None:
        """`metadata` and `init_messages` hold JSON values only, unchanged by writing and reading: they are stored."""
        for split, tasks in self._read_all(tmp_path).items():
            for task in tasks:
                for key, value in task.metadata.items():
                    self._assert_json(split, task, f"metadata[{key!r}]", {key: value})
                for number, message in enumerate(task.init_messages):
                    self._assert_json(split, task, f"init_messages[{number}]", message)

    def test_tasks_cross_processes(self, tmp_path: Path) -> None:
        """Tasks survive pickling: each rollout process gets its own copies."""
        for split, tasks in self._read_all(tmp_path).items():
            for task in tasks:
                blame, remedy = f"{self._place(split)}: task {task.task_id!r}", "put plain JSON values into a task"
                with forbid_errors(f"{blame}: pickling it", remedy):
                    again = pickle.loads(pickle.dumps(task))
                assert again == task, f"{blame} was changed by pickling: {again!r:.200}: {remedy}"

    def _read_all(self, directory: Path) -> dict[Split, list[Task]]:
        reader = self.make(directory)
        return {split: list(reader.read(split)) for split in self.splits}

    def _place(self, split: Split) -> str:
        return f"{self._blame}: read({split!r})"

    def _assert_same(self, split: Split, expected: Sequence[Task], found: Sequence[Task], when: str) -> None:
        remedy = "read in the order of the data, keep no state between readings, and draw nothing at random"
        assert len(found) == len(expected), f"{self._place(split)} gave {len(expected)} tasks, and {len(found)} {when}: {remedy}"
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            what = "id" if one.task_id != other.task_id else "content"
            assert one == other, (
                f"{self._place(split)}: the {what} of task {number} changed {when}: {_format_task(one)}, {_format_task(other)}: "
                f"{remedy}"
            )

    def _assert_json(self, split: Split, task: Task, place: str, value: Mapping[str, Any]) -> None:
        blame, remedy = f"{self._place(split)}: task {task.task_id!r}: {place}", "use JSON values with text as keys"
        plain = cast("dict[str, Any]", dict(value))
        with forbid_errors(f"{blame}: writing it as JSON", remedy):
            again = json.loads(json.dumps(plain, allow_nan=False))
        assert again == plain, f"{blame} comes back from JSON as {again!r:.120} instead of {plain!r:.120}: {remedy}"


def _format_task(task: Task) -> str:
    return f"{task.task_id!r} ({task.main_query!r:.40})"
