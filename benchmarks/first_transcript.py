"""CPU seconds of `astuner run --backbone debug` up to its first transcript, beside what its libraries need by themselves.

In a project that `astuner quickstart` has written, whose agent uses the OpenAI SDK. The model is behind an API, or is
scripted with the tokenizer of the project's model, or is that model in the engine `local`. The bare programs import what
such a run cannot do without. Everything has run once before, so tokenizers are remembered and modules compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from astuner_devkit.scripted_api import scripted_api

SDK = "from openai import AsyncOpenAI; AsyncOpenAI(api_key='none')"
TOKENIZER = "from transformers import AutoTokenizer; AutoTokenizer.from_pretrained('model')"
MODEL = "from transformers import AutoModelForCausalLM; AutoModelForCausalLM.from_pretrained('model')"
BARE = {
    "openai": ("the SDK", SDK),
    "scripted": ("the SDK, the tokenizer", f"{SDK}\n{TOKENIZER}"),
    "local": ("the SDK, the tokenizer, the model", f"{SDK}\n{TOKENIZER}\n{MODEL}"),
}
COLUMNS = f"{'engine':<12}{'CPU s':>8}{'bare':>8}{'ratio':>8}  bare is"


def measure_first_transcript(command: list[str], project: Path) -> float:
    """Return the CPU seconds of a run when its first transcript begins."""
    env = make_environment()
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if line.startswith(b"episode "):
                spent = read_cpu_seconds(run.pid)
                run.stdout.read()
                return spent
    raise SystemExit(f"no transcript: {' '.join(command)} ended with {run.returncode} in {project}")


def read_cpu_seconds(pid: int) -> float:
    """Return user and system time of a process that runs."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_whole(code: str, project: Path) -> float:
    """Return the CPU seconds of a Python program."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], cwd=project, env=make_environment(), capture_output=True, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def make_environment() -> dict[str, str]:
    """Return the environment of a user's shell: modules stay compiled, and a transcript is printed when it is there."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}


def main() -> None:
    """Measure in turn, so that a slow moment of the machine falls on all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", type=Path, required=True, help="what `astuner quickstart` has written")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    project = arguments.project.resolve()
    with scripted_api(r"\boxed{4}") as api, tempfile.TemporaryDirectory() as records:
        engines = {
            "openai": [f"--set=rollout.openai={{base_url: {api.url}, model: any}}"],
            "scripted": ['--set=rollout.scripted={replies: ["4"]}'],
            "local": [],
        }
        played: dict[str, list[float]] = {name: [] for name in engines}
        bare: dict[str, list[float]] = {name: [] for name in engines}
        for number in range(arguments.runs + 1):
            for name, settings in engines.items():
                directory = f"--set=experiment_dir={records}/{name}-{number}"
                engine = [f"--set=rollout.name={name}", *settings, directory, "--set=debug.debug_first_n_tasks=1"]
                command = [sys.executable, "-m", "astuner", "run", "--conf", "tune.yaml", "--backbone", "debug", *engine]
                played[name].append(measure_first_transcript(command, project))
                bare[name].append(measure_whole(BARE[name][1], project))
    print(COLUMNS)
    rows = []
    for name, (what, _) in BARE.items():
        ours, theirs = statistics.median(played[name][1:]), statistics.median(bare[name][1:])
        ratio = statistics.median(mine / other for mine, other in zip(played[name][1:], bare[name][1:], strict=True))
        rows.append({"engine": name, "cpu_s": round(ours, 2), "bare_cpu_s": round(theirs, 2), "ratio": round(ratio, 2)})
        print(f"{name:<12}{ours:>8.2f}{theirs:>8.2f}{ratio:>8.2f}  {what}")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
