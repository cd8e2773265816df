"""The viewer's index of a large store: `python benchmarks/logview_index.py [--small] [--store DIR]`.

Makes the run of `logview_store.py` (`--store` keeps it), indexes it in the viewer's own child process, and prints the CPU seconds
of that, the time until the first episodes can be listed and until all can, the memory of both processes, the size of the index,
and the CPU time of the requests of the pages: the first, and the median of five more.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from logview_store import LONG_EPISODE, LONG_TASK, write_store

REQUESTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("/api/runs", {}),
    ("/api/runs/{run}/steps", {}),
    ("/api/runs/{run}/waterfall", {}),
    ("/api/runs/{run}/episodes", {}),
    ("/api/runs/{run}/episodes", {"filter": "reward<0.5 step:10..20", "sort": "tokens"}),
    ("/api/runs/{run}/episodes", {"filter": "naïve 42*"}),
    ("/api/runs/{run}/tasks", {}),
    ("/api/runs/{run}/judge", {}),
    ("/api/runs/{run}/group", {"split": "train", "step": "1", "task": "task-0000"}),
    ("/api/runs/{run}/group", {"split": "train", "step": "1", "task": LONG_TASK}),
    ("/api/runs/{run}/episode", {"id": LONG_EPISODE}),
    ("/api/runs/{run}/stream", {"id": LONG_EPISODE}),
    ("/api/runs/{run}/tokens", {"id": LONG_EPISODE, "chunk": "3"}),
)


def main() -> None:
    """Print a table of measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="200 episodes and 20 MB, to see that it works")
    parser.add_argument("--store", type=Path, help="where the run is made, and found again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        os.environ["XDG_CACHE_HOME"] = str(Path(work) / "cache")
        record = arguments.store or Path(work) / "record"
        if not record.exists():
            begun = time.process_time()
            write_store(record / "large", small=arguments.small)
            print(f"made in {time.process_time() - begun:.0f} CPU s")
        measure_index(record)
        measure_requests(record)


def measure_index(record: Path) -> None:
    """Index a store from nothing."""
    from astuner_logview.index.places import find_index
    from astuner_logview.library import Library

    library, own = Library([record]), psutil.Process()
    run = library.list_runs()[0]
    begun = time.perf_counter()
    library.indexer.start()
    library.find(run.id)
    first, cpu, memory = None, 0.0, 0
    while True:
        with run.index.open() as connection:
            count = connection.execute("SELECT count(*) FROM episodes").fetchone()[0]
            progress = run.index.measure_progress(connection)
        for child in own.children():
            times = child.cpu_times()
            cpu, memory = times.user + times.system, max(memory, child.memory_info().rss)
        if first is None and count:
            first = time.perf_counter() - begun
            print(f"first {count} episodes listed after {first:.2f} s")
        if progress == 1.0:
            break
        time.sleep(0.05)
    took = time.perf_counter() - begun
    size = (run.path / "episodes" / "train.jsonl").stat().st_size
    library.indexer.stop()
    index = find_index(run.path).stat().st_size
    print(
        f"{count} episodes, {size / 1e9:.2f} GB, indexed in {cpu:.1f} CPU s ({took:.1f} s): {size / cpu / 1e6:.0f} MB per CPU s"
    )
    print(f"index {index / 1e6:.0f} MB; memory of the indexing process {memory / 1e6:.0f} MB")


def measure_requests(record: Path) -> None:
    """Measure the CPU time of what the pages ask for."""
    from astuner_logview.answers import encode_answer
    from astuner_logview.library import Library
    from astuner_logview.pages.addresses import PAGES
    from astuner_logview.parameters import Parameters

    library = Library([record])
    run = library.list_runs()[0].id
    for address, values in REQUESTS:
        parameters = Parameters(run=run, values={name: [value] for name, value in values.items()})

        def ask(address: str = address, parameters: Parameters = parameters) -> bytes:
            return encode_answer(PAGES[address](library, parameters))

        first, later, size = _time(ask)
        print(f"{address} {values or ''}: first {first * 1000:.0f} ms, then {later * 1000:.0f} ms; {size / 1000:.0f} kB")
    print(f"memory of this process, which has answered all: {psutil.Process().memory_info().rss / 1e6:.0f} MB")


def _time(ask: Callable[[], Any]) -> tuple[float, float, int]:
    times, size = [], 0
    for _ in range(6):
        begun = time.process_time()
        size = len(ask())
        times.append(time.process_time() - begun)
    return times[0], statistics.median(times[1:]), size


if __name__ == "__main__":
    main()
