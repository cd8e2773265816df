"""A million rows through `dataset_file`, in each format: time to the first task, rows per second, growth of the resident size.

`python benchmarks/readers.py [--rows 1000000]`. Each format is read to its end in a process of its own, which checks that ids are
unique.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

PAGE = os.sysconf("SC_PAGE_SIZE")
FORMATS = ("jsonl", "json", "csv", "tsv", "parquet")


def rows(count: int) -> Iterator[dict[str, str]]:
    """Yield rows of about the size of GSM8K's."""
    for number in range(count):
        story = f"Natalia sold {number} clips in April, and half as many in May. " * 4
        yield {"question": story + "How many did she sell?", "answer": f"{number} / 2 = {number // 2}\n" * 8 + f"#### {number}"}


def write(path: Path, count: int) -> None:
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        # As one row group, which is the hardest to stream.
        pq.write_table(pa.Table.from_pylist(list(rows(count))), path, row_group_size=count)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows(count))
        elif path.suffix == ".json":
            file.write("[\n")
            file.writelines((",\n" if number else "") + json.dumps(row) for number, row in enumerate(rows(count)))
            file.write("\n]\n")
        else:
            writer = csv.DictWriter(file, ["question", "answer"], delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows(count))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def read(path: Path) -> dict[str, float]:
    """Read the file in this process, and return what it took; importing what the format needs counts."""
    from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
    from astuner.settings.config.sections import DatasetFileSection, FileSplit

    reader = DatasetFileReader(DatasetFileSection(training=FileSplit(file_path=path.name)), path.parent)
    before, peak, stop = resident_bytes(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not stop.wait(0.02):
            peak = max(peak, resident_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began, cpu = time.perf_counter(), time.process_time()
    tasks = reader.read("train")
    next(tasks)
    first, at_first = time.perf_counter() - began, resident_bytes()
    count = 1 + sum(1 for _ in tasks)
    cpu = time.process_time() - cpu
    stop.set()
    watcher.join()
    peak = max(peak, before)
    return {"rows": count, "first_s": first, "cpu_s": cpu, "mb": (peak - before) / 1e6, "mb_after_first": (peak - at_first) / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--read", type=Path, help="only read this file, and print what it took as JSON")
    arguments = parser.parse_args()
    if arguments.read:
        print(json.dumps(read(arguments.read)))
        return
    table = Table("format", "file MB", "first task s", "CPU s", "rows per CPU s", "growth MB", "after the first task MB")
    with tempfile.TemporaryDirectory() as home:
        for kind in FORMATS:
            path = Path(home) / f"rows.{kind}"
            write(path, arguments.rows)
            done = subprocess.run([sys.executable, __file__, "--read", str(path)], capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
            assert found["rows"] == arguments.rows
            size, speed = path.stat().st_size / 1e6, found["rows"] / found["cpu_s"]
            table.add_row(
                kind,
                f"{size:,.0f}",
                f"{found['first_s']:.3f}",
                f"{found['cpu_s']:.1f}",
                f"{speed:,.0f}",
                f"{found['mb']:.0f}",
                f"{found['mb_after_first']:.0f}",
            )
            path.unlink()
    Console().print(table)


if __name__ == "__main__":
    main()
