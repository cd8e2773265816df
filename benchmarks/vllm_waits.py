"""What a user of `rollout.name: vllm` waits for: new weights in the running server, and the first transcript of a `debug` run.

python benchmarks/vllm_waits.py [--rounds 9]

Both on the quickstart's project. New weights are the model of a training process, saved and loaded as after a step. A first
transcript is counted from the start of `astuner run --backbone debug`, on a server that an earlier run has kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from astuner.settings.planning.plan import plan_run
from astuner.settings.plugins.hooks import Hooks

ASTUNER = [sys.executable, "-m", "astuner"]
KEY_VARIABLE = "VLLM_WAITS_KEY"


def first_transcript(project: Path) -> tuple[float, float]:
    """Return the seconds until the first episode is shown, and the CPU seconds of the whole run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began, shown = time.perf_counter(), float("nan")
    command = [*ASTUNER, "run", "--conf", "tune.yaml", "--backbone", "debug", "--set", "rollout.name=vllm"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if line.startswith("episode ") and shown != shown:
                shown = time.perf_counter() - began
    if run.returncode:
        raise SystemExit("the debug run failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return shown, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def weight_syncs(project: Path, url: str, rounds: int) -> list[tuple[float, float]]:
    """Return wall and CPU seconds of each update of the running server."""
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()

    settings = ["rollout.name=vllm", f"rollout.vllm.url=[{url}]", f"rollout.vllm.api_key_env={KEY_VARIABLE}"]
    plan = plan_run(project / "tune.yaml", settings, backbone="local")
    component = plan.recipe.engine
    assert component is not None
    info = plan.run_info()
    info.directory.mkdir(parents=True, exist_ok=True)
    hooks = Hooks(plan.catalog, on_listener_error=print, options={})
    engine = hooks.make_engine(component.candidate, component.options, info)()
    await engine.start()
    model = AutoModelForCausalLM.from_pretrained(project / "model")
    took = []
    try:
        for version in range(1, rounds + 2):
            wall, cpu = time.perf_counter(), time.process_time()
            await engine.update_weights(model, version)
            took.append((time.perf_counter() - wall, time.process_time() - cpu))
    finally:
        await engine.close()
    return took[1:]


def print_times(name: str, rows: Sequence[tuple[float, float]]) -> Mapping[str, float]:
    """Print medians of wall and CPU seconds, and the longest wall time."""
    walls, cpus = zip(*rows, strict=True)
    wall, longest, cpu = statistics.median(walls), max(walls), statistics.median(cpus)
    print(f"{name:<18}{wall:>8.2f}{longest:>10.2f}{cpu:>8.2f}")
    return {"wall_s": wall, "longest_s": longest, "cpu_s": cpu}


def main() -> None:
    """Start one server, measure both on it, and end it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ASTUNER_STATE_DIR"] = str(Path(folder) / "state")
        subprocess.run([*ASTUNER, "quickstart", "agent", "--no-run"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        project = Path(folder) / "agent"
        try:
            first_transcript(project)
            load = os.getloadavg()
            transcripts = [first_transcript(project) for _ in range(rounds)]
            from astuner.shared.processes import list_programs

            (server,) = list_programs()
            os.environ[KEY_VARIABLE] = str(server.facts["key"])
            syncs = asyncio.run(weight_syncs(project, str(server.url), rounds))
        finally:
            subprocess.run([*ASTUNER, "stop", "--all"], check=True, stdout=subprocess.DEVNULL)
    print(f"{'':<18}{'wall s':>8}{'longest':>10}{'CPU s':>8}")
    found = {
        "weight sync": print_times("weight sync", syncs),
        "first transcript": print_times("first transcript", transcripts),
    }
    print(json.dumps({"load": load, **found}))


if __name__ == "__main__":
    main()
