"""Builds the wheel and the source distribution of every package, from which they are published.

    python scripts/build_packages.py OUT            both, the wheel from the source distribution
    python scripts/build_packages.py OUT --wheels   the wheels alone

It needs `build` and `hatchling`, and builds with those that are installed. The same sources give the same files, byte for
byte: hatchling writes no times but that of `SOURCE_DATE_EPOCH`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 300


def folders() -> Iterator[Path]:
    """Yield the folder of every package that is published."""
    yield ROOT / "astuner-core"
    yield from sorted(path.parent for path in (ROOT / "plugins").glob("*/pyproject.toml"))


def build_packages(out: Path, *, wheels_alone: bool = False) -> None:
    """Build all packages into a folder, two at a time. Raises CalledProcessError, after printing what the builder says."""
    options = ["--wheel"] if wheels_alone else []

    def build(folder: Path) -> None:
        command = [sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", str(out), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode:
            print(done.stdout, done.stderr, file=sys.stderr)
            done.check_returncode()

    out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(build, folders()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT", help="The folder for the files; it must be empty or new.")
    parser.add_argument("--wheels", action="store_true", help="Build no source distributions.")
    arguments = parser.parse_args()
    if arguments.out.exists() and any(arguments.out.iterdir()):
        parser.error(f"{arguments.out} is not empty; give a folder that is empty or new, so that no older version is published")
    build_packages(arguments.out, wheels_alone=arguments.wheels)
    print(f"{sum(1 for _ in arguments.out.iterdir())} files in {arguments.out}", file=sys.stderr)
