from __future__ import annotations

import json
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner.contract.protocols import ReaderTraits
from astuner.contract.schema import Split, Task
from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
from astuner_devkit.contracts import Contract, ReaderContract, list_rules, run_contract


class TestJsonlReader(ReaderContract):
    component = "astuner.episodes.builtin.readers.dataset_file:DatasetFileReader"
    options: ClassVar[Mapping[str, Any]] = {
        "training": {"file_path": "data/train.jsonl"},
        "validation": {"file_path": "data/validation.jsonl"},
    }
    splits = ("train", "validation")

    def prepare(self, directory: Path) -> None:
        (directory / "data").mkdir(exist_ok=True)
        for split in ("train", "validation"):
            rows = [{"question": f"{split} {n} + 1?", "answer": str(n + 1), "steps": [n, 1]} for n in range(4)]
            (directory / "data" / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))


class TestJsonlReaderWithoutValidation(ReaderContract):
    component = DatasetFileReader
    options: ClassVar[Mapping[str, Any]] = {"training": {"file_path": "train.jsonl"}}

    def prepare(self, directory: Path) -> None:
        (directory / "train.jsonl").write_text('{"prompt": [{"role": "user", "content": "2 + 2?"}], "answer": "4"}\n')


class Letters:
    """A good reader."""

    def read(self, split: Split) -> Iterator[Task]:
        if split == "train":
            yield from self.tasks()

    def tasks(self) -> Iterator[Task]:
        for letter in "abc":
            yield Task(f"After {letter}?", task_id=letter, metadata={"after": chr(ord(letter) + 1)})


class Awaited:
    async def read(self, split: Split) -> list[Task]:
        return []


class Nothing:
    def read(self, split: Split) -> Iterator[Task]:
        yield from ()


class Rows(Letters):
    def tasks(self) -> Iterator[Any]:
        yield {"main_query": "After a?"}


class TurnsRound(Letters):
    forward = True

    def tasks(self) -> Iterator[Task]:
        self.forward = not self.forward
        yield from list(super().tasks())[:: 1 if self.forward else -1]


class LosesTheLast(Letters):
    readings = 0

    def tasks(self) -> Iterator[Task]:
        self.readings += 1
        yield from list(super().tasks())[: 4 - self.readings]


class CountsOn(Letters):
    made = 0

    def __init__(self) -> None:
        type(self).made += 1

    def tasks(self) -> Iterator[Task]:
        for task in super().tasks():
            yield Task(task.main_query, task_id=f"{self.made}-{task.task_id}")


class SharesIds(Letters):
    def tasks(self) -> Iterator[Task]:
        yield from [Task("one", task_id="1"), Task("two", task_id="2"), Task("three", task_id="1")]


class WithoutIds(Letters):
    def tasks(self) -> Iterator[Task]:
        yield Task("one")


class HoldsAll(Letters):
    def read(self, split: Split) -> Any:
        return list(super().read(split))


class HoldsAllBehindAnIterator(Letters):
    def read(self, split: Split) -> Any:
        return iter(list(super().read(split)))


class Sequential(Letters):
    """Not even an iterator: it is indexed."""

    def read(self, split: Split) -> Any:
        return self

    def __getitem__(self, index: int) -> Task:
        return list(self.tasks())[index]


class SharesItsPlace(Letters):
    """One cursor for all readings: right as long as they come one after the other."""

    cursor = 0

    def tasks(self) -> Iterator[Task]:
        everything = list(super().tasks())
        self.cursor = 0
        while self.cursor < len(everything):
            self.cursor += 1
            yield everything[self.cursor - 1]


class StartsInTheMiddle(Letters):
    """Goes on with what another reading left."""

    started: Any = None

    def tasks(self) -> Iterator[Task]:
        if self.started is None:
            self.started = super().tasks()
        yield from self.started
        self.started = None


class Clings(Letters):
    def tasks(self) -> Iterator[Task]:
        try:
            yield from super().tasks()
        except GeneratorExit:
            raise OSError("the file is still open") from None


class KeepsItsLock(Letters):
    locked = False

    def tasks(self) -> Iterator[Task]:
        if self.locked:
            return
        self.locked = True
        yield from super().tasks()
        self.locked = False


class NeedsValidation(Letters):
    def read(self, split: Split) -> Iterator[Task]:
        return {"train": super().read}[split](split)


class ValidatesOnTraining(Letters):
    def read(self, split: Split) -> Iterator[Task]:
        yield from self.tasks()


class Tuples(Letters):
    def tasks(self) -> Iterator[Task]:
        yield Task("one", task_id="1", metadata={"range": (1, 2)})


class Paths(Letters):
    def tasks(self) -> Iterator[Task]:
        yield Task("one", task_id="1", metadata={"file": Path("a.txt")})


class OddMessages(Letters):
    def tasks(self) -> Iterator[Task]:
        yield Task("one", ({"role": "user", "content": b"bytes"},), task_id="1")


class Unpicklable(Letters):
    def tasks(self) -> Iterator[Task]:
        yield Task("one", task_id="1", metadata={"counts": defaultdict(lambda: 0, {"a": 1})})


class Forgetful(str):
    """Text that comes out of a pickle as other text."""

    def __reduce__(self) -> Any:
        return str, ("forgotten",)


class ChangedByPickling(Letters):
    def tasks(self) -> Iterator[Task]:
        yield Task("one", task_id="1", metadata={"note": Forgetful("kept")})


class FindsPlaces(Letters):
    traits = ReaderTraits(finds_places=True)

    def identify_tasks(self, split: Split) -> str | None:
        return "letters"

    def read_places(self, split: Split, places: array[int]) -> Iterator[Task]:
        for place, task in enumerate(self.read(split)):
            places.append(place)
            yield task

    def read_at(self, split: Split, number: int, place: int) -> Task:
        return list(self.tasks())[place]


class FindsTheNext(FindsPlaces):
    def read_at(self, split: Split, number: int, place: int) -> Task:
        return list(self.tasks())[place - 1]


class LeavesOneOut(FindsPlaces):
    def read_places(self, split: Split, places: array[int]) -> Iterator[Task]:
        return islice(super().read_places(split, places), 2)


class KnowsItselfOnly(FindsPlaces):
    def identify_tasks(self, split: Split) -> str | None:
        return str(id(self))


BAD = [
    ("test_it_is_a_reader", Awaited, "`read` is not awaited, so it would not run; drop `async`"),
    ("test_it_is_a_reader", Path, "Path' (pathlib:Path) has no method `read`: write `def read(self, split)`"),
    ("test_each_split_has_tasks", Nothing, "read('train') yielded nothing: write its data in `prepare`"),
    ("test_each_split_has_tasks", Rows, "read('train') yielded {'main_query': 'After a?'} as number 0: yield astuner.Task"),
    ("test_the_order_is_the_same_every_time", TurnsRound, "the id of task 0 changed when it was read again: 'c' "),
    ("test_the_order_is_the_same_every_time", LosesTheLast, "gave 3 tasks, and 2 when it was read again: read in the order"),
    ("test_a_fresh_reader_reads_the_same", CountsOn, "the id of task 0 changed in a second reader"),
    ("test_ids_are_unique", SharesIds, "tasks 0 and 2 share the id '1'"),
    ("test_ids_are_unique", WithoutIds, "task 0 has the id ''; make one from its content"),
    ("test_tasks_are_read_lazily", HoldsAll, "holds all tasks at once (list): make `read` a generator"),
    ("test_tasks_are_read_lazily", HoldsAllBehindAnIterator, "holds all tasks at once (list_iterator)"),
    ("test_tasks_are_read_lazily", Sequential, "which is not an iterator"),
    ("test_reading_again_begins_at_the_beginning", StartsInTheMiddle, "gave 3 tasks, and 2 while it was being read"),
    ("test_reading_again_begins_at_the_beginning", SharesItsPlace, "gave 3 tasks, and 1 after another reading had passed it"),
    ("test_reading_may_stop_early", Clings, "leaving it after its first task raised OSError: the file is still open"),
    ("test_reading_may_stop_early", KeepsItsLock, "gave 3 tasks, and 0 after it was left in the middle"),
    ("test_tasks_are_found_by_their_places", FindsTheNext, "the id of task 0 changed in read_at"),
    ("test_tasks_are_found_by_their_places", LeavesOneOut, "gave 3 tasks, and 2 in read_places"),
    ("test_tasks_are_found_by_their_places", KnowsItselfOnly, "in a second reader"),
    ("test_a_split_that_is_not_configured_is_empty", NeedsValidation, "read('validation') raised KeyError: 'validation'"),
    ("test_a_split_that_is_not_configured_is_empty", ValidatesOnTraining, "read('validation') yielded 3 tasks"),
    ("test_tasks_are_json", Tuples, "metadata['range'] comes back from JSON as {'range': [1, 2]} instead of"),
    ("test_tasks_are_json", Paths, "metadata['file']: writing it as JSON raised TypeError: Object of type PosixPath"),
    ("test_tasks_are_json", OddMessages, "init_messages[0]: writing it as JSON raised TypeError: Object of type bytes"),
    ("test_tasks_cross_processes", Unpicklable, "task '1': pickling it raised "),
    ("test_tasks_cross_processes", ChangedByPickling, "task '1' was changed by pickling"),
]


def contract_of(reader: type) -> type[ReaderContract]:
    return type("Bad", (ReaderContract,), {"component": reader})


@pytest.mark.filterwarnings("ignore:coroutine 'Awaited.read' was never awaited")
@pytest.mark.parametrize(("rule", "reader", "words"), BAD)
def test_a_bad_reader_breaks_its_rule(rule: str, reader: type, words: str) -> None:
    outcome = next(outcome for outcome in run_contract(contract_of(reader)) if outcome.rule == rule)
    assert (outcome.status, words in outcome.message) == ("failed", True), outcome


def test_each_rule_has_a_bad_reader() -> None:
    assert {rule for rule, _, _ in BAD} == set(list_rules(ReaderContract)) - set(list_rules(Contract))


def test_a_good_reader_keeps_all_rules() -> None:
    assert {"passed"} == {outcome.status for outcome in run_contract(contract_of(Letters))}


def test_a_message_begins_with_the_blame() -> None:
    (outcome,) = [outcome for outcome in run_contract(contract_of(WithoutIds)) if outcome.rule == "test_ids_are_unique"]
    assert outcome.message.startswith(f"reader 'WithoutIds' ({__name__}:WithoutIds): read('train'): ")
