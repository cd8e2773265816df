"""An index is made again when it may not be that of the store any more."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from astuner.runs.store.codec import encode_episode
from astuner.runs.store.store_lines import seal
from astuner_devkit.episodes import episode
from astuner_logview.errors import Rebuilding
from astuner_logview.index.indexer import Indexer
from astuner_logview.index.places import find_cache, find_index
from astuner_logview.index.reader import IndexReader
from astuner_logview.index.schema import VERSION
from astuner_logview.index.worker import Task
from astuner_logview.index.writer import IndexWriter
from astuner_logview.library import Library


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    (path / "episodes").mkdir(parents=True)
    write(path, ["a", "b", "c"])
    return path.resolve()


def write(run: Path, tasks: list[str], *, mode: str = "wb") -> None:
    with (run / "episodes" / "train.jsonl").open(mode) as file:
        file.writelines(seal(encode_episode(episode(task=task))) for task in tasks)


def index(run: Path) -> None:
    writer = IndexWriter(run, find_index(run))
    while writer.advance():
        pass
    writer.close()


def list_tasks(run: Path) -> list[str]:
    with IndexReader(run).open() as connection:
        return [row[0] for row in connection.execute("SELECT task FROM episodes ORDER BY offset")]


def find_words(run: Path, word: str) -> int:
    with IndexReader(run).open() as connection:
        query = "SELECT count(*) FROM episodes WHERE rowid IN (SELECT rowid FROM texts WHERE texts MATCH ?)"
        found: int = connection.execute(query, (word,)).fetchone()[0]
        return found


def test_a_store_that_grows_is_followed(run: Path) -> None:
    index(run)
    write(run, ["d"], mode="ab")
    index(run)
    assert list_tasks(run) == ["a", "b", "c", "d"]
    assert find_words(run, '"π"') == 4


@pytest.mark.parametrize("tasks", [["a"], ["a", "b"], ["x", "b", "c"], ["a", "b", "x"], ["a", "b", "x", "y"], []])
def test_another_store_is_indexed_from_nothing(run: Path, tasks: list[str]) -> None:
    index(run)
    write(run, tasks)
    index(run)
    assert list_tasks(run) == tasks
    assert find_words(run, '"π"') == len(tasks)


def test_a_store_that_is_gone_is_forgotten(run: Path) -> None:
    index(run)
    (run / "episodes" / "train.jsonl").unlink()
    index(run)
    assert list_tasks(run) == []


def test_another_run_in_the_directory_is_indexed_from_nothing(run: Path) -> None:
    index(run)
    rowids = [row[0] for row in sqlite3.connect(find_index(run)).execute("SELECT rowid FROM episodes")]
    (run / "run.json").write_text(json.dumps({"attempts": [{"started": "now"}]}))
    index(run)
    assert list_tasks(run) == ["a", "b", "c"]
    assert not set(rowids) & {row[0] for row in sqlite3.connect(find_index(run)).execute("SELECT rowid FROM episodes")}


@pytest.mark.parametrize("spoil", ["version", "bytes", "tables"])
def test_an_index_that_cannot_be_used_is_made_again(run: Path, spoil: str) -> None:
    index(run)
    path = find_index(run)
    if spoil == "bytes":
        path.write_bytes(b"SQLite format 3\0" + os.urandom(5000))
    else:
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version={VERSION + 1 if spoil == 'version' else 0}")
        connection.close()
    assert list_tasks(run) == []
    index(run)
    assert list_tasks(run) == ["a", "b", "c"]


def test_only_the_user_may_read_an_index(run: Path) -> None:
    index(run)
    for path in (find_cache().parent, find_cache(), *find_cache().iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_the_newest_episodes_are_found_first(run: Path) -> None:
    writer = IndexWriter(run, find_index(run), block=1, first_block=1)
    for tasks in (["c"], ["b", "c"], ["a", "b", "c"]):
        while list_tasks(run) != tasks:
            assert writer.advance()
    writer.close()


def test_progress_is_whole_when_all_is_indexed(run: Path) -> None:
    reader = IndexReader(run)

    def measure() -> float:
        with reader.open() as connection:
            return reader.measure_progress(connection)

    assert measure() < 1
    writer = IndexWriter(run, find_index(run), block=1, first_block=1)
    writer.advance()
    writer.advance()
    assert 0 < measure() < 1
    while writer.advance():
        pass
    assert measure() == 1
    with (run / "episodes" / "train.jsonl").open("ab") as file:
        file.write(b'{"crc":"half a line')
    assert not writer.advance()
    assert measure() == 1
    (run / "episodes" / "validation.jsonl").write_bytes(b'{"crc":"half a line')
    assert not writer.advance()
    assert measure() == 1
    writer.close()


@pytest.fixture
def indexer(run: Path) -> Iterator[Indexer]:
    indexer = Indexer(lambda: [run])
    indexer.start()
    yield indexer
    indexer.stop()


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_process_indexes_what_is_there_and_what_comes(run: Path, indexer: Indexer) -> None:
    wait_for(lambda: list_tasks(run) == ["a", "b", "c"])
    write(run, ["d"], mode="ab")
    wait_for(lambda: list_tasks(run) == ["a", "b", "c", "d"])


def test_the_process_ends_with_its_server(run: Path) -> None:
    code = "import sys,time\nfrom pathlib import Path\nfrom astuner_logview.index.indexer import Indexer\n"
    code += "Indexer(lambda: [Path(sys.argv[1])]).start()\ntime.sleep(600)\n"
    server = psutil.Popen([sys.executable, "-c", code, str(run)])
    try:
        wait_for(lambda: bool(list_tasks(run)))
        (child,) = server.children()
    finally:
        server.kill()
        server.wait()
    child.wait(30)


def test_two_servers_share_an_index(run: Path, indexer: Indexer) -> None:
    wait_for(lambda: list_tasks(run) == ["a", "b", "c"])
    other = Indexer(lambda: [run])
    other.start()
    write(run, ["d"], mode="ab")
    wait_for(lambda: list_tasks(run) == ["a", "b", "c", "d"])
    indexer.stop()
    write(run, ["e"], mode="ab")
    wait_for(lambda: list_tasks(run) == ["a", "b", "c", "d", "e"])
    other.stop()


def test_an_index_that_somebody_else_makes_is_left_alone(run: Path) -> None:
    with find_index(run).with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        worker = [sys.executable, "-m", "astuner_logview.index.worker"]
        process = subprocess.Popen(worker, stdin=subprocess.PIPE, text=True)
        assert process.stdin is not None
        process.stdin.write(json.dumps({"run": str(run), "wanted": True}) + "\n")
        process.stdin.flush()
        child = psutil.Process(process.pid)
        wait_for(lambda: child.num_threads() > 1 and child.status() == psutil.STATUS_SLEEPING)
        assert not find_index(run).exists()
        process.stdin.close()
        assert process.wait(30) == 0


def test_what_cannot_be_indexed_is_reported(run: Path) -> None:
    find_index(run).mkdir()
    reports: list[tuple[Path, str]] = []
    indexer = Indexer(lambda: [run], lambda *report: reports.append(report))
    indexer.start()
    wait_for(lambda: bool(reports))
    indexer.stop()
    assert reports[0][0] == run
    assert "its episodes cannot be indexed: " in reports[0][1]


def test_a_home_that_cannot_be_written_to_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").write_text("a file in the way")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    assert find_cache().parent == tmp_path / "tmp"
    find_cache().chmod(0o777)
    with pytest.raises(PermissionError, match="set XDG_CACHE_HOME"):
        find_cache()


def garble(path: Path) -> None:
    """Damage an index while it is open."""
    for file in path.parent.glob(f"{path.stem}*"):
        content = bytearray(file.read_bytes())
        content[100:3000] = os.urandom(2900)
        file.write_bytes(bytes(content))


def forget_header(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))
    path.with_name(f"{path.name}-wal").unlink(missing_ok=True)


def lose_tables(path: Path) -> None:
    """Leave what a damaged log leaves of an index whose tables were in the log."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()


@pytest.mark.parametrize("damage", [garble, forget_header, lose_tables])
def test_an_index_that_is_damaged_while_it_is_open_is_named_and_made_again(run: Path, damage: Callable[[Path], None]) -> None:
    task, problems = Task(run), list[str]()
    while task.advance():
        pass
    damage(find_index(run))
    os.utime(find_index(run).with_suffix(".lock"), (0, 0))
    reader = IndexReader(run, problems)
    with suppress(Rebuilding), reader.open() as connection:
        assert connection.execute("SELECT count(*) FROM episodes").fetchone()[0] in (0, 3)
    assert problems == ["the index of its episodes was damaged, and is made again"]
    for _ in range(5):
        task.advance()
    assert list_tasks(run) == ["a", "b", "c"]
    task.close()


def test_a_full_disk_is_the_reason_that_is_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = Task(run)
    while task.advance():
        pass
    write(run, [f"{number} a word of its own" for number in range(500)], mode="ab")
    # On a full disk, as at this limit, SQLite ends the transaction itself.
    connection = task._writer._connection
    connection.execute(f"PRAGMA max_page_count={connection.execute('PRAGMA page_count').fetchone()[0]}")
    assert not task.advance()
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["run"] == str(run)
    assert "its episodes cannot be indexed: database or disk is full; indexes are in" in json.loads(line)["problem"]


def test_what_failed_is_tried_again_after_a_while(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task, now = Task(run), [0.0]
    monkeypatch.setattr("astuner_logview.index.worker.time.monotonic", lambda: now[0])
    with monkeypatch.context() as patch:
        patch.setattr(IndexWriter, "advance", raise_full)
        assert not task.advance()
    assert not task.advance()
    now[0] = 11.0
    while task.advance():
        pass
    assert [bool(json.loads(line)["problem"]) for line in capsys.readouterr().out.splitlines()] == [True, False]
    assert list_tasks(run) == ["a", "b", "c"]
    task.close()


def raise_full(_: IndexWriter) -> bool:
    raise OSError(28, "No space left on device")


def test_a_problem_is_taken_back_once_it_is_solved(run: Path) -> None:
    library = Library([run])
    (shown,) = library.list_runs()
    shown.problems.append("another one")
    for problem, left in (("its episodes cannot be indexed: full", 2), ("its episodes cannot be indexed: locked", 2), ("", 1)):
        library._add_problem(run, problem)
        assert len(shown.problems) == left
