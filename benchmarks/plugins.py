"""CPU seconds of light commands with 100 plugins installed, one of which takes 5 s to import, against none installed."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from astuner_devkit.distribution import write_distribution
from astuner_devkit.project import write_project

README = "\n## Section\n\n" + "A sentence of the description, as long as they usually are in a README.\n" * 20
"""Metadata of a published package holds its README; reading it is part of the cost."""

REQUIRES = (
    "astuner-core>=0.2,<0.3",
    "attrs>=24.2",
    "click>=8.1",
    "packaging>=24",
    "rich>=13",
    "pyyaml>=6; python_version >= '3.9'",
    "acme-absent>=1; extra == 'fast'",
)
JUDGE = "class Judge:\n    def compute_reward(self, workflow_task, workflow_output):\n        return 1.0\n"
SLOW = "import time\nwhile time.process_time() < 5:\n    pass\n"


def install(site: Path, count: int) -> None:
    """Lay out distributions with a judge each, as pip would; the first one is slow to import."""
    for number in range(count):
        module = f"acme_{number}"
        entry_points = {"astuner.judges": {f"judge{number}": f"{module}.judge:Judge"}}
        source = SLOW + JUDGE if number == 0 else JUDGE
        write_distribution(site, f"acme-{number}", "1.0", {f"{module}/judge.py": source}, entry_points, REQUIRES)
        with (site / f"{module}-1.0.dist-info" / "METADATA").open("a") as file:
            file.write(README * 5)


def cpu_seconds(arguments: list[str], site: Path | None) -> float:
    """Return user and system time of one run, as the operating system accounts it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYTHONPATH": str(site)} if site else {}
    command = [sys.executable, "-m", "astuner", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"astuner {' '.join(arguments)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure with and without in turn, so that a slow moment of the machine falls on both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plugins", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        site = Path(home, "site")
        install(site, arguments.plugins)
        conf = write_project(Path(home, "project"))
        commands = {"plugin list": ["plugin", "list"], "--help": ["--help"], "config validate": ["config", "validate"]}
        commands["config validate"] += ["--conf", str(conf)]
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(arguments.rounds + 1):
            for name, command in commands.items():
                times[name].append((cpu_seconds(command, None), cpu_seconds(command, site)))
    print(f"{'command':<18}{'none, CPU ms':>14}{f'{arguments.plugins}, CPU ms':>14}{'ratio':>8}")
    figures = {}
    for name, pairs in times.items():
        # The first round fills the caches of the disk.
        none, installed = (1e3 * statistics.median(column) for column in zip(*pairs[1:], strict=True))
        ratio = statistics.median(after / before for before, after in pairs[1:])
        figures[name] = {"none_ms": round(none, 1), "installed_ms": round(installed, 1), "ratio": round(ratio, 2)}
        print(f"{name:<18}{none:>14.0f}{installed:>14.0f}{ratio:>8.2f}")
    print(json.dumps({"plugins": arguments.plugins, "cpu": figures}))


if __name__ == "__main__":
    main()
