"""What a start knows of the tasks from an earlier one, and that it plays no others."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import DataError, RunFailed
from astuner.contract.protocols import ReaderTraits
from astuner.contract.schema import Split, Task
from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
from astuner.episodes.rollout import sampler as sampling
from astuner.episodes.rollout import steady_tasks
from astuner.episodes.rollout.sampler import TaskSampler
from astuner.episodes.rollout.steady_tasks import SteadyTasks, TaskDigest
from astuner.settings.config.sections import DatasetFileSection, FileSplit

ROWS = 60


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(steady_tasks, "KEPT_FROM", 10)
    monkeypatch.setattr(sampling, "SHUFFLE_WINDOW", 8)
    return tmp_path / "cache" / "astuner" / "tasks"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write(tmp_path / "rows.jsonl", ROWS)
    return tmp_path / "rows.jsonl"


def write(path: Path, count: int, **changed: Any) -> None:
    rows = [{"question": f"What is {i}? é", "answer": str(i), "level": i % 3, "tags": ["a", {"b": i}]} for i in range(count)]
    for number, row in changed.items():
        rows[int(number[1:])] |= row
    path.write_text("".join(json.dumps(row, ensure_ascii=i % 2 == 0) + "\n" * (1 + i % 4) for i, row in enumerate(rows)))


class Counted(DatasetFileReader):
    """Says which tasks were read, and how."""

    def __init__(self, file: Path, **options: Any) -> None:
        super().__init__(DatasetFileSection(training=FileSplit(file_path=file.name, **options)), file.parent)
        self.in_order, self.at = 0, list[int]()

    def read(self, split: Split) -> Iterator[Task]:
        return self.read_places(split, None)

    def read_places(self, split: Split, places: Any) -> Iterator[Task]:
        for task in super().read_places(split, places):
            self.in_order += 1
            yield task

    def read_at(self, split: Split, number: int, place: int) -> Task:
        self.at.append(number)
        return super().read_at(split, number, place)


class InOrder:
    """The same tasks from a reader that only reads in order."""

    def __init__(self, file: Path, **options: Any) -> None:
        self._reader = DatasetFileReader(DatasetFileSection(training=FileSplit(file_path=file.name, **options)), file.parent)

    def read(self, split: Split) -> Iterator[Task]:
        return self._reader.read(split)


def sample(reader: Any, seed: int = 1, **more: Any) -> TaskSampler:
    return TaskSampler(reader, batch_size=4, epochs=3, seed=seed, max_draws=2, **more)


def ids(tasks: Sequence[Task]) -> list[str]:
    return [task.task_id for task in tasks]


def shuffle_as_ever(tasks: Sequence[Task], key: str, window_size: int) -> Iterator[Task]:
    """The order of an epoch, as it was when all its tasks were read."""
    rng, window = random.Random(key), list[Task]()
    for task in tasks:
        if len(window) < window_size:
            window.append(task)
            continue
        chosen = rng.randrange(window_size)
        yield window[chosen]
        window[chosen] = task
    rng.shuffle(window)
    yield from window


@pytest.mark.parametrize("seed", [0, 1, 7])
@pytest.mark.parametrize("options", [{}, {"limit": 37}, {"columns": {"main_query": "answer"}}], ids=["all", "limit", "columns"])
def test_the_order_is_that_of_a_reading_in_order(file: Path, seed: int, options: dict[str, Any]) -> None:
    whole = list(InOrder(file, **options).read("train"))
    first, again, streamed = (sample(kind(file, **options), seed) for kind in (Counted, Counted, InOrder))
    steps = len(whole) // 4
    for epoch in range(2):
        expected = list(shuffle_as_ever(whole, f"{seed}/{epoch}", 8))
        for step in (1, 2, steps - 1, steps):
            tasks = expected[4 * step - 4 : 4 * step]
            assert first.batch(epoch * steps + step) == again.batch(epoch * steps + step) == tasks
    for visit in ((2, 1), (2, 2), (steps + 3, 2), (1, 1)):
        assert first.batch(*visit) == again.batch(*visit) == streamed.batch(*visit)
    assert first.digests == again.digests == streamed.digests
    assert first.first(3) == again.first(3) == whole[:3]


def test_an_unshuffled_run_goes_on_where_the_epoch_ends(file: Path) -> None:
    whole = ids(list(InOrder(file, limit=30).read("train")))
    found = sample(Counted(file, limit=30), shuffle=False)
    assert [ids(found.batch(8)), ids(found.batch(8, 1))] == [[*whole[28:], *whole[:2]], whole[2:6]]


def test_a_second_start_and_a_late_step_read_only_what_they_play(file: Path) -> None:
    first = Counted(file)
    SteadyTasks(first)
    assert first.in_order == ROWS
    second = Counted(file)
    found = sample(second)
    assert (second.in_order, second.at) == (0, [0])
    found.batch(ROWS // 4)
    assert (second.in_order, len(second.at)) == (0, 5)


@pytest.mark.parametrize("changed", [{"_40": {"answer": "!"}}, {"_0": {"level": 9}}, {"_59": {"tags": []}}])
def test_a_file_with_one_other_row_is_read_again(file: Path, changed: dict[str, Any]) -> None:
    before, stat = SteadyTasks(Counted(file)).digests, file.stat()
    write(file, ROWS, **changed)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    second = Counted(file)
    assert SteadyTasks(second).digests["train"] != before["train"]
    assert second.in_order == ROWS


@pytest.mark.parametrize("options", [{"limit": 40}, {"default_query": "Which?"}, {"columns": {"main_query": "answer"}}])
def test_other_options_are_other_tasks(file: Path, options: dict[str, Any]) -> None:
    SteadyTasks(Counted(file))
    second = Counted(file, **options)
    assert SteadyTasks(second).digests == SteadyTasks(InOrder(file, **options)).digests  # type: ignore[arg-type]
    assert second.in_order == options.get("limit", ROWS)


def test_rows_that_repeat_others_keep_their_ids(file: Path) -> None:
    file.write_text(file.read_text() * 2)
    expected = sample(InOrder(file, keep_repeats=True))
    for found in (sample(Counted(file, keep_repeats=True)), sample(Counted(file, keep_repeats=True))):
        assert found.train_tasks == 2 * ROWS
        assert [ids(found.batch(step)) for step in range(1, 31)] == [ids(expected.batch(step)) for step in range(1, 31)]


def test_text_of_columns_is_parsed_for_one_row_as_for_all(file: Path) -> None:
    file.write_text("".join(json.dumps({"question": f"{i}?", "data": json.dumps({"n": i})}) + "\n" for i in range(20)))
    for found in (sample(Counted(file, json_columns=("data",))), sample(Counted(file, json_columns=("data",)))):
        assert sorted(task.metadata["data"]["n"] for step in range(1, 6) for task in found.batch(step)) == list(range(20))


def test_digests_are_those_that_runs_have_stored(file: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"question": "What is 1 + 1? é😀", "answer": "2", "level": 1.5e-7, "tags": ["a", {"b": None, "a": True}]},
        {
            "id": "seven",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": 'Why\n"?'}],
            "n": 10**30,
        },
        {"task_id": 7, "prompt": "q", "metadata": {"x": 1e22}, "env_type": "a_game"},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    stored = TaskDigest(
        tasks=3,
        ids="7f92df3fb5658e5add60eb093b5bb09d",
        content="e16eea8389f783d48851dc09553c7f3b",
        unordered="c8e59f128e596c5f1d1d65b3edad8566",
    )
    for kind in (Counted, InOrder):
        assert SteadyTasks(kind(file)).digests["train"] == stored  # type: ignore[arg-type]


def damage(cache: Path, change: Callable[[bytes], bytes]) -> None:
    (kept,) = cache.iterdir()
    kept.write_bytes(change(kept.read_bytes()))


@pytest.mark.parametrize(
    "change",
    [lambda kept: b"", lambda kept: kept[:-8], lambda kept: kept[:99] + b"!" + kept[100:], lambda kept: kept + b"\0" * 8],
    ids=["emptied", "cut off", "a byte", "longer"],
)
def test_a_damaged_index_is_made_again(file: Path, cache: Path, change: Callable[[bytes], bytes]) -> None:
    expected = SteadyTasks(Counted(file)).digests
    damage(cache, change)
    second, third = Counted(file), Counted(file)
    assert SteadyTasks(second).digests == SteadyTasks(third).digests == expected
    assert (second.in_order, third.in_order) == (ROWS, 0)


def test_the_index_is_for_its_user_alone(file: Path, cache: Path) -> None:
    SteadyTasks(Counted(file))
    (kept,) = cache.iterdir()
    assert (kept.stat().st_mode & 0o777, cache.stat().st_mode & 0o777) == (0o600, 0o700)


def test_the_indexes_unused_for_longest_are_removed(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in (20, 30, 40):
        SteadyTasks(Counted(file, limit=limit))
    for age, path in enumerate(sorted(cache.iterdir(), key=lambda path: -path.stat().st_size)):
        os.utime(path, (1e9 - age, 1e9 - age))
    SteadyTasks(Counted(file, limit=20))
    monkeypatch.setattr(steady_tasks, "MOST_BYTES", 2 * max(path.stat().st_size for path in cache.iterdir()) + 500)
    SteadyTasks(Counted(file, limit=21))
    readers = [Counted(file, limit=limit) for limit in (20, 21, 40, 30)]
    for reader in readers:
        SteadyTasks(reader)
    assert [reader.in_order for reader in readers] == [0, 0, 0, 30]


def test_a_start_needs_no_cache(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
    assert len(sample(Counted(file)).batch(3)) == 4


def test_a_small_split_leaves_no_index(file: Path, cache: Path) -> None:
    SteadyTasks(Counted(file, limit=9))
    assert not cache.exists()


START = """
import sys
from pathlib import Path

from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
from astuner.episodes.rollout import steady_tasks
from astuner.episodes.rollout.steady_tasks import SteadyTasks
from astuner.settings.config.sections import DatasetFileSection, FileSplit

steady_tasks.KEPT_FROM = 10
reader = DatasetFileReader(DatasetFileSection(training=FileSplit(file_path="rows.jsonl")), Path(sys.argv[1]))
print(SteadyTasks(reader).digests["train"].content)
"""


def test_starts_at_the_same_time_leave_one_whole_index(file: Path, cache: Path) -> None:
    command = [sys.executable, "-c", START, str(file.parent)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    content = {process.communicate()[0].strip() for process in started}
    assert content == {SteadyTasks(InOrder(file)).digests["train"].content}  # type: ignore[arg-type]
    assert len([*cache.iterdir()]) == 1
    last = Counted(file)
    SteadyTasks(last)
    assert last.in_order == 0


def test_a_row_that_changes_while_the_run_lasts_is_not_played(file: Path) -> None:
    found = sample(Counted(file))
    found.batch(1)
    write(file, ROWS, _40={"answer": "!"})
    with pytest.raises(
        RunFailed, match=r"the train tasks have changed since this start read them: task 41, '\w+', is another one"
    ):
        found.batch(2)


class Overlooks(Counted):
    """Takes a file for the same one whatever happens to it."""

    def identify_tasks(self, split: Split) -> str | None:
        return "the same"


def test_a_row_that_changed_unnoticed_is_not_played_either(file: Path) -> None:
    found = sample(Overlooks(file), shuffle=False)
    write(file, ROWS, _7={"level": 9})
    assert len(found.batch(1)) == 4
    with pytest.raises(RunFailed, match=r"have changed since this start read them: task 8, '\w+', is another one"):
        found.batch(2)


@pytest.mark.parametrize(("count", "said"), [(ROWS - 9, "they end after task 51"), (ROWS + 1, "task 61, '\\w+', is another one")])
def test_rows_that_come_or_go_while_the_run_lasts_end_it(file: Path, count: int, said: str) -> None:
    found = sample(Counted(file))
    write(file, count)
    with pytest.raises(RunFailed, match=f"the train tasks have changed since this start read them: {said}"):
        found.batch(1)


def test_a_file_that_is_written_again_with_the_same_tasks_goes_on(file: Path) -> None:
    found, expected = sample(Counted(file)), sample(InOrder(file))
    assert found.batch(1) == expected.batch(1)
    rows = [json.loads(line) for line in file.read_text().splitlines() if line]
    file.write_text("\n".join(json.dumps(row, indent=None, separators=(" , ", " : ")) for row in rows))
    assert found.batch(2) == expected.batch(2)


def test_a_broken_row_has_its_line_whether_there_is_an_index_or_not(file: Path) -> None:
    SteadyTasks(Counted(file))
    lines = file.read_text().split("\n")
    lines[50] = lines[50][:-2] or '{"question": '
    file.write_text("\n".join(lines))
    texts = set()
    for kind in (Counted, InOrder):
        with pytest.raises(DataError, match=r"rows\.jsonl:51:\d+: broken JSON in column") as refused:
            SteadyTasks(kind(file))  # type: ignore[arg-type]
        texts.add(str(refused.value))
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("1e999", "metadata holds inf, which is not a JSON value"),
        ("[" * 70 + "]" * 70, "metadata holds a list inside 64 levels"),
        ("1" * 4299, "metadata holds an int"),
    ],
)
def test_what_json_holds_and_a_task_does_not_is_refused(file: Path, value: str, said: str) -> None:
    file.write_text(f'{{"question": "q", "x": {value}}}\n')
    for kind in (Counted, InOrder):
        with pytest.raises(DataError, match=rf"^task '\w+' \(train\): {said}"):
            SteadyTasks(kind(file))  # type: ignore[arg-type]


def test_half_an_emoji_is_mended_and_reported_at_each_start(file: Path) -> None:
    file.write_text(file.read_text() + '{"id": "half", "question": "\\ud83d"}\n{"id": "whole", "question": "\\ud83d\\ude00"}\n')
    expected = SteadyTasks(InOrder(file))  # type: ignore[arg-type]
    assert "the text of 1 task(s) is not valid Unicode, the first is 'half' (train)" in str(expected.describe_mended())
    for _ in range(2):
        tasks = SteadyTasks(Counted(file))
        assert (tasks.digests, tasks.describe_mended()) == (expected.digests, expected.describe_mended())
        assert tasks.take("train", ROWS).main_query == "\ufffd"


def test_what_a_run_needs_of_its_tasks_is_checked_at_each_start(file: Path) -> None:
    write(file, ROWS, _33={"source": "maths"})

    def check(task: Task, split: Split) -> None:
        if "source" in task.metadata:
            raise DataError(f"{task.metadata['answer']} ({split})")

    SteadyTasks(Counted(file))
    second = Counted(file)
    with pytest.raises(DataError, match=r"^33 \(train\)$"):
        SteadyTasks(second, [check])
    assert second.in_order == 34


class Halved(DatasetFileReader):
    """Reads in its own way what another one can find."""

    def read(self, split: Split) -> Iterator[Task]:
        for number, task in enumerate(super().read(split)):
            if number % 2:
                yield task


class Wrapped:
    """Passes on everything but what it changes."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, split: Split) -> Iterator[Task]:
        return (task for task in self._inner.read(split) if task.metadata["level"] == 0)


def test_a_reader_that_changes_how_another_one_reads_is_read_in_order(file: Path) -> None:
    section = DatasetFileSection(training=FileSplit(file_path=file.name))
    assert DatasetFileReader.traits == ReaderTraits(names_files=True, lists_files=True, finds_places=True)
    assert len(sample(Halved(section, file.parent)).batch(7)) == 4
    assert sample(Halved(section, file.parent)).train_tasks == ROWS // 2
    assert sample(Wrapped(Counted(file))).train_tasks == ROWS // 3
