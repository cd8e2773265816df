"""What durability and checksums cost a checkpoint: seconds per GB to sync and digest it, and to read it back."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import click

from astuner.runs.store.manifest import find_damage, write_manifest

GB = 1_000_000_000
BLOCK = 10_000_000


@click.command()
@click.option("--gigabytes", default=2, show_default=True)
@click.option("--files", default=4, show_default=True, help="Into which the weights are split.")
@click.option("--directory", type=click.Path(path_type=Path), help="Where to write; a temporary directory by default.")
def main(gigabytes: int, files: int, directory: Path | None) -> None:
    """Write a made-up checkpoint and print a row per part of the work."""
    home = Path(tempfile.mkdtemp(dir=directory))
    try:
        block = os.urandom(BLOCK)
        for number in range(files):
            with (home / f"model-{number}.safetensors").open("wb") as file:
                for _ in range(gigabytes * GB // files // BLOCK):
                    file.write(block)
        print("| | wall s per GB | CPU s per GB |\n|---|---|---|")
        for name, work in (("fsync and digest (each save)", write_manifest), ("read back (pruning, resume)", find_damage)):
            begin, cpu = time.perf_counter(), time.process_time()
            if work(home):
                raise SystemExit("the checkpoint was damaged while it was measured")
            print(f"| {name} | {(time.perf_counter() - begin) / gigabytes:.2f} | {(time.process_time() - cpu) / gigabytes:.2f} |")
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
