"""A million tasks: the first start, the second one, and a resume near the end of the epoch, beside `json.loads` of each line.

`python benchmarks/starts.py [--rows 1000000] [--times 5]`. CPU seconds of a process each, medians; the cache is empty before a
first start, and the file is in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

KINDS = {
    "json": "json.loads per line",
    "first": "first start, first batch",
    "second": "second start, first batch",
    "resume": "resume, five steps before the epoch ends",
}
BATCH = 8


def write(path: Path, count: int) -> None:
    filler = "what is the capital of the country that lies between those two rivers? " * 4
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            row = {"main_query": f"Question {number}: {filler}", "answer": str(number), "level": number % 5}
            file.write(json.dumps(row | {"source": "made-up", "tags": ["a", "b"]}) + "\n")


def measure(kind: str, path: Path) -> dict[str, float]:
    """Do one of the kinds in this process, and return CPU seconds and the peak of the resident size; imports do not count."""
    from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
    from astuner.episodes.rollout.sampler import TaskSampler
    from astuner.settings.config.sections import DatasetFileSection, FileSplit

    before, began = read_peak(), time.process_time()
    if kind == "json":
        with path.open("rb") as file:
            for line in file:
                json.loads(line)
    else:
        reader = DatasetFileReader(DatasetFileSection(training=FileSplit(file_path=path.name)), path.parent)
        tasks = TaskSampler(reader, batch_size=BATCH, epochs=1, seed=0)
        tasks.batch(tasks.total_steps - 5 if kind == "resume" else 1)
    return {"cpu_s": time.process_time() - began, "mb": (read_peak() - before) / 1024}


def read_peak() -> int:
    """Return the peak of the resident size in KiB, of this process alone: `ru_maxrss` is inherited from a parent."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--measure", nargs=2, metavar=("KIND", "FILE"), help="only measure one, and print it as JSON")
    arguments = parser.parse_args()
    if arguments.measure:
        kind, file = arguments.measure
        print(json.dumps(measure(kind, Path(file))))
        return
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "rows.jsonl"
        write(path, arguments.rows)
        for time_ in range(arguments.times):
            environment = os.environ | {"XDG_CACHE_HOME": f"{home}/cache-{time_}"}
            for kind, results in found.items():
                command = [sys.executable, __file__, "--measure", kind, str(path)]
                done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
                results.append(json.loads(done.stdout))
        size = path.stat().st_size / 1e6
    table = Table("", "CPU s", "µs per row", "times json.loads", "growth MB", title=f"{arguments.rows:,} rows, {size:,.0f} MB")
    base = median(one["cpu_s"] for one in found["json"])
    for kind, results in found.items():
        cpu = median(one["cpu_s"] for one in results)
        growth = f"{median(one['mb'] for one in results):,.0f}"
        table.add_row(KINDS[kind], f"{cpu:.2f}", f"{cpu / arguments.rows * 1e6:.2f}", f"{cpu / base:.2f}", growth)
    Console().print(table)


if __name__ == "__main__":
    main()
