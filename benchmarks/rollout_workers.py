"""What several workers play in the time of one: the agent of `rollout_workers_engine.py` over an engine that only waits.

    python benchmarks/rollout_workers.py [--workers 1 2] [--concurrent 512 --episodes 1024 --turns 4] [--proxied]

plays the same episodes with each number of workers. `CPU ms a call` is that of all processes together. The capacity is what the
busiest process allows, calls per second of its CPU time: the calls per second of a machine with a core for each process. The
first row is the OpenAI SDK alone over canned answers, in the same run, since CPU time depends on what else the machine does. With
`--proxied` the requests go through the driver, as for an engine that lives there.

    python benchmarks/rollout_workers.py --ray 3 --episodes 5000

plays on a Ray cluster of three simulated nodes of this machine, ends one of them in the middle, and compares with one process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import yaml
from attrs import evolve
from rollout_workers_bare import measure_bare_cpu_ms
from words import help_tokenizer

from astuner.contract.schema import Episode, Group, Task
from astuner.episodes.rollout.group_runner import open_group_runner
from astuner.episodes.rollout.host import make_training_sampling
from astuner.episodes.rollout.runner import Round
from astuner.model.rendering import load_renderer
from astuner.runs.store.episode_store import EpisodeFiles
from astuner.settings.planning.plan import plan_run
from astuner.settings.plugins.hooks import Hooks

HERE = Path(__file__).parent
REPEATS = 8
PROGRAM = "astuner_rollout_workers.program"


def write_project(directory: Path, given: argparse.Namespace, workers: int) -> Path:
    """Write the YAML of the run that is measured."""
    engine = "StubEngine" if given.proxied else "ReachableStubEngine"
    (directory / "tasks.jsonl").write_text('{"main_query": "?"}\n', encoding="utf-8")
    target = f"{HERE / 'rollout_workers_engine.py'}:{engine}"
    section = {
        "backbone": "debug",
        "model": {"path": str(directory / "model")},
        "data": {"max_prompt_length": 8192, "max_response_length": 8192},
        "rollout": {
            "user_workflow": f"{HERE / 'rollout_workers_engine.py'}:ToolAgent",
            "name": target,
            target: {"turn_s": given.turn_s},
            "players": workers,
            "max_env_worker": given.concurrent,
            "num_repeat": REPEATS,
        },
        "task_reader": {"type": "dataset_file", "dataset_file": {"training": {"file_path": "tasks.jsonl"}}},
        "experiment_dir": str(directory / f"run{workers}"),
    }
    conf = directory / f"workers{workers}.yaml"
    conf.write_text(yaml.safe_dump({"astuner": section}), encoding="utf-8")
    return conf


def measure_cpu_s() -> dict[int, float]:
    """Return the CPU seconds of this process and of each worker on this machine, by pid."""
    found = {os.getpid(): sum(os.times()[:2])}
    for process in psutil.process_iter(["cmdline"]):
        if PROGRAM in (process.info["cmdline"] or ()) and str(os.getpid()) not in (process.info["cmdline"] or ()):
            times = process.cpu_times()
            found[process.pid] = times.user + times.system
    return found


async def play(
    conf: Path, given: argparse.Namespace, on_episode: Callable[[Episode], None] = lambda episode: None
) -> tuple[Sequence[Group], Mapping[str, Any]]:
    """Play, and return the groups with wall and CPU seconds."""
    plan = plan_run(conf)
    info = plan.run_info()
    info.directory.mkdir(parents=True, exist_ok=True)
    hooks = Hooks(plan.catalog, on_listener_error=print)
    component = plan.recipe.engine
    assert component is not None
    engine = hooks.make_engine(component.candidate, component.options, info)()
    store = EpisodeFiles(info.directory / "episodes")
    control: Any = SimpleNamespace(hooks=hooks, store=store, notify=lambda text, level="warning": print(text, file=sys.stderr))
    tasks = [
        Task(task_id=str(place), main_query="?", metadata={"turns": given.turns}) for place in range(given.episodes // REPEATS)
    ]
    round_ = Round(step=1, split="train", repeats=REPEATS, sampling=make_training_sampling(info))
    # Each process imports the SDK when it is first used.
    first = [Task(task_id=f"first-{place}", main_query="?", metadata={"turns": 1}) for place in range(2 * max(given.workers))]
    opening = open_group_runner(
        engine=engine,
        renderer=load_renderer(info.config.model.path),
        recipe=plan.recipe,
        run_info=info,
        control=control,
        on_episode=on_episode,
    )
    async with opening as runner:
        await runner.run(first, evolve(round_, step=0))
        before, wall = measure_cpu_s(), time.perf_counter()
        groups = await runner.run(tasks, round_)
        wall_s, after = time.perf_counter() - wall, measure_cpu_s()
    spent = sorted((after[pid] - before.get(pid, 0.0) for pid in after if pid != os.getpid()), reverse=True)
    store.close()
    return groups, {"wall_s": wall_s, "driver_cpu_s": after[os.getpid()] - before[os.getpid()], "worker_cpu_s": spent}


def compare_workers(given: argparse.Namespace, directory: Path) -> None:
    """Print a row for each number of workers."""
    calls = given.episodes * given.turns
    heads = f"{'workers':<9}{'wall s':>8}{'calls/s':>9}{'driver CPU s':>14}{'CPU of workers s':>18}"
    print(f"{heads}{'CPU ms a call':>15}{'of the SDK':>12}{'capacity':>10}")
    counts = {"episodes": given.episodes, "concurrent": given.concurrent, "turns": given.turns, "turn_s": given.turn_s}
    bare_ms = asyncio.run(measure_bare_cpu_ms(help_tokenizer(), **counts))
    print(f"{'SDK alone':<58}{bare_ms:>15.2f}{1:>12.2f}{1000 / bare_ms:>10.0f}", flush=True)
    for workers in given.workers:
        _, row = asyncio.run(play(write_project(directory, given, workers), given))
        all_s = [row["driver_cpu_s"], *row["worker_cpu_s"]]
        shown = "/".join(f"{one:.1f}" for one in row["worker_cpu_s"]) or "-"
        print(
            f"{workers:<9}{row['wall_s']:>8.1f}{calls / row['wall_s']:>9.0f}{row['driver_cpu_s']:>14.1f}{shown:>18}"
            f"{1000 * sum(all_s) / calls:>15.2f}{1000 * sum(all_s) / calls / bare_ms:>12.2f}{calls / max(all_s):>10.0f}",
            flush=True,
        )


def play_on_nodes(given: argparse.Namespace, directory: Path) -> None:
    """Play on simulated nodes, of which one ends in the middle, and compare with one process."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(given.ray - 1):
        cluster.add_node(num_cpus=1)
    os.environ["RAY_ADDRESS"] = cluster.address
    finished = 0

    def end_a_node(_: Episode) -> None:
        nonlocal finished
        finished += 1
        if finished == given.episodes // 2:
            threading.Thread(target=cluster.remove_node, args=(cluster.worker_nodes.copy().pop(), False)).start()

    try:
        several, row = asyncio.run(play(write_project(directory, given, given.ray), given, end_a_node))
    finally:
        cluster.shutdown()
        del os.environ["RAY_ADDRESS"]
    alone, _ = asyncio.run(play(write_project(directory, given, 1), given))
    lines = (directory / f"run{given.ray}" / "episodes" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    stored = Counter(record["episode"]["id"] for record in map(json.loads, lines) if record["kind"] == "episode")
    kept = {name: count for name, count in stored.items() if name.startswith("train/1/")}
    same = [list(map(describe_samples, group.episodes)) for group in several] == [
        list(map(describe_samples, group.episodes)) for group in alone
    ]
    episodes = [episode for group in several for episode in group.episodes]
    failed = sum(not episode.completed for episode in episodes)
    twice = sum(count > 1 for count in kept.values())
    print(f"{given.ray} nodes, one of which ended after {given.episodes // 2} episodes, in {row['wall_s']:.0f} s:")
    print(
        f"{len(episodes)} episodes, {failed} failed; {len(kept)} stored, {twice} of them twice; samples as of one process: {same}"
    )


def describe_samples(episode: Episode) -> Any:
    """Return what is trained of an episode."""
    return (
        episode.id,
        episode.reward,
        [(sample.ids.tolist(), sample.mask.tolist(), sample.logprobs.tolist()) for sample in episode.samples],
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--concurrent", type=int, default=512)
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--turn-s", type=float, default=1.0)
    parser.add_argument("--proxied", action="store_true", help="Requests go through the driver.")
    parser.add_argument("--ray", type=int, metavar="NODES", help="Simulate this many nodes, and end one of them.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        help_tokenizer().save_pretrained(directory / "model")
        if given.ray:
            play_on_nodes(given, directory)
        else:
            compare_workers(given, directory)


if __name__ == "__main__":
    main()
