"""Writes `base.txt`: resolves everything that the light environments install, together and from nothing, and pins it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TORCH = "torch==2.13.0"
WANTED = [
    f"{ROOT}/astuner-core[rollout]",
    f"{ROOT}/plugins/astuner-local",
    f"{ROOT}/plugins/astuner-judges[math-verify]",
    f"{ROOT}/plugins/astuner-readers[hf]",
    f"{ROOT}/plugins/astuner-loggers[tensorboard]",
    "agentscope==2.0.10",
    "build",
    "hatchling",
    "hypothesis",
    "pytest",
    "pytest-asyncio",
    "twine",
]
HEADER = (
    "# Every dependency of the light environments, resolved together. Written by constraints/update.py; not edited by hand.\n"
)


def main() -> None:
    """Resolve in a temporary environment and write the pins."""
    with tempfile.TemporaryDirectory() as home:
        venv.create(home, with_pip=True)
        python = str(Path(home) / "bin" / "python")
        # torch first: with a release that satisfies the range already there, nothing larger is fetched in its place.
        for wanted in ([TORCH], WANTED):
            subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        freeze = subprocess.run([python, "-m", "pip", "freeze", "--exclude-editable"], check=True, capture_output=True, text=True)
    ours = ("astuner-", "pip==", "setuptools==")
    pins = [line.partition("+")[0] for line in freeze.stdout.splitlines() if not line.startswith(ours) and " @ " not in line]
    (ROOT / "constraints" / "base.txt").write_text(HEADER + "\n".join(pins) + "\n")
    print(f"{len(pins)} pins", file=sys.stderr)


if __name__ == "__main__":
    main()
