"""What durability and checksums cost a checkpoint: seconds per GB to sync and digest it, and to read it back.

Beside them is what safetensors itself takes to write the same weights, which no digest and no sync follows.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from safetensors.numpy import save_file

from astuner.runs.store.manifest import find_damage, write_manifest

GB = 1_000_000_000
TENSOR = 25_000_000
"""Bytes of each tensor."""


@click.command()
@click.option("--gigabytes", default=2, show_default=True)
@click.option("--files", default=4, show_default=True, help="Into which the weights are split.")
@click.option("--rounds", default=5, show_default=True, help="Of which the median counts.")
@click.option("--directory", type=click.Path(path_type=Path), help="Where to write; a temporary directory by default.")
def main(gigabytes: int, files: int, rounds: int, directory: Path | None) -> None:
    """Write a made-up checkpoint and print a row per part of the work."""
    weights = {
        f"layer.{number}": np.random.default_rng(number).standard_normal(TENSOR // 4, np.float32)
        for number in range(gigabytes * GB // files // TENSOR)
    }
    found: dict[str, list[tuple[float, float]]] = {}

    def measure(name: str, work: Callable[[], object]) -> None:
        begin, cpu = time.perf_counter(), time.process_time()
        if work():
            raise SystemExit("the checkpoint was damaged while it was measured")
        found.setdefault(name, []).append((time.perf_counter() - begin, time.process_time() - cpu))

    for _ in range(rounds):
        home = Path(tempfile.mkdtemp(dir=directory))
        try:
            paths = [home / f"model-{number}.safetensors" for number in range(files)]
            measure("safetensors' own writing", lambda paths=paths: [save_file(weights, path) for path in paths] and None)
            measure("fsync and digest (each save)", lambda home=home: write_manifest(home))
            measure("read back (pruning, resume)", lambda home=home: find_damage(home))
        finally:
            shutil.rmtree(home)
    print("| | wall s per GB | CPU s per GB | CPU, of safetensors' |\n|---|---|---|---|")
    own = None
    for name, times in found.items():
        wall, cpu = (float(np.median(each)) / gigabytes for each in zip(*times, strict=True))
        own = own or cpu
        print(f"| {name} | {wall:.2f} | {cpu:.2f} | {cpu / own:.2f} |", flush=True)


if __name__ == "__main__":
    main()
