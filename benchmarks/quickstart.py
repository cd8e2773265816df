"""The quickstart for several seeds: validation reward before and after, and wall time of the whole command."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def validation_rewards(run: Path) -> list[float]:
    """Return the mean reward of each validation, in order."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [row["val/reward/mean"] for row in rows if row["kind"] == "validation"]


def main() -> None:
    """Run one seed after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    rows = []
    print(f"{'seed':>4}{'before':>9}{'after':>9}{'wall s':>9}")
    for seed in range(parser.parse_args().seeds):
        with tempfile.TemporaryDirectory() as home:
            began = time.perf_counter()
            command = [sys.executable, "-m", "astuner", "quickstart", "my-agent", "--seed", str(seed)]
            subprocess.run(command, cwd=home, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wall = time.perf_counter() - began
            (run,) = (Path(home) / "my-agent" / "launcher_record").iterdir()
            rewards = validation_rewards(run)
        rows.append({"seed": seed, "before": rewards[0], "after": rewards[-1], "wall_s": round(wall, 1)})
        print(f"{seed:>4}{rewards[0]:>9.3f}{rewards[-1]:>9.3f}{wall:>9.1f}", flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
