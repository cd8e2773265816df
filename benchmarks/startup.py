"""CPU seconds of `astuner --help` and `astuner plugin list` above a bare `python -c pass`, and what they import."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "astuner --help": ["-m", "astuner", "--help"],
    "astuner plugin list": ["-m", "astuner", "plugin", "list"],
}
HEAVY = ("torch", "transformers", "openai", "ray")


def cpu_seconds(arguments: list[str]) -> float:
    """Return user and system time of one run, as the operating system accounts it."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def heavy_imports(arguments: list[str]) -> list[str]:
    """Return the heavy packages that a command imports."""
    found = subprocess.run([sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True).stderr
    modules = {line.rpartition("|")[2].strip().partition(".")[0] for line in found.splitlines()}
    return sorted(modules.intersection(HEAVY))


def main() -> None:
    """Measure in turn, so that a slow moment of the machine falls on all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs + 1):
        for name, arguments in COMMANDS.items():
            times[name].append(cpu_seconds(arguments))
    medians = {name: statistics.median(found[1:]) for name, found in times.items()}
    bare = medians["python -c pass"]
    print(f"{'command':<24}{'CPU ms':>8}{'above bare':>12}  heavy imports")
    for name, value in medians.items():
        imports = ", ".join(heavy_imports(COMMANDS[name])) or "none"
        print(f"{name:<24}{1e3 * value:>8.0f}{1e3 * (value - bare):>12.0f}  {imports}")
    print(json.dumps({"cpu_ms": {name: round(1e3 * value, 1) for name, value in medians.items()}}))


if __name__ == "__main__":
    main()
