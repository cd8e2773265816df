"""CPU time of a replay with the judge `math`: `python benchmarks/replay.py [--episodes 5000] [--tokens 512]`.

Makes a run of groups of 8 siblings on disk, each episode with one call of so many sampled tokens, and scores it again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import yaml
from attrs import evolve
from rich.console import Console
from rich.table import Table

from astuner.contract.schema import Call, Episode, Group, Sample, Task, Verdict, WeightSpan, WorkflowOutput
from astuner.runs.inspection.run import Run
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import EpisodeFiles
from astuner_tools.replays.replay import replay_run
from astuner_tools.replays.replay_request import ReplayRequest

SIBLINGS = 8
GROUPS_IN_A_STEP = 16
PROMPT = 128


def make_episode(number: int, tokens: int, random: np.random.Generator) -> Episode:
    place, repeat = divmod(number, SIBLINGS)
    step, task_id = 1 + place // GROUPS_IN_A_STEP, f"task-{place}"
    identity = f"train/{step}/{task_id}/{repeat}"
    answer = str(18 + random.integers(2))
    text = f"First we count. {'Then we add what is left, and go on. ' * (tokens // 12)}So the answer is $\\boxed{{{answer}}}$."
    ids = random.integers(0, 150_000, tokens).astype(np.int32)
    logprobs = -random.random(tokens).astype(np.float32)
    prompt = random.integers(0, 150_000, PROMPT).astype(np.int32)
    call = Call(
        index=0,
        agent="agent",
        target_tag="agent",
        parent=None,
        kept=0,
        prompt_ids=prompt,
        output_ids=ids,
        logprobs=logprobs,
        finish_reason="stop",
        weights=(WeightSpan(start=0, version=step - 1),),
        messages=({"role": "user", "content": "How much does Janet make?"},),
        reply={"role": "assistant", "content": text},
    )
    sample = Sample(
        episode_id=identity,
        task_id=task_id,
        repeat=repeat,
        agent="agent",
        ids=np.concatenate([prompt, ids]),
        mask=np.concatenate([np.zeros(PROMPT, bool), np.ones(tokens, bool)]),
        logprobs=np.concatenate([np.zeros(PROMPT, np.float32), logprobs]),
        calls=(0,),
    )
    return Episode(
        id=identity,
        task=Task("How much does Janet make?", task_id=task_id, metadata={"answer": "18"}),
        step=step,
        repeat=repeat,
        output=WorkflowOutput(metadata={"final_answer": text}),
        calls=(call,),
        samples=(sample,),
        verdict=Verdict(float(answer == "18"), answer == "18"),
    )


def write_run(path: Path, episodes: int, tokens: int) -> None:
    random = np.random.default_rng(0)
    directory = RunDirectory(path)
    directory.open()
    directory.write_run({"backbone": "local", "experiment_name": path.name})
    resolved = {"astuner": {"task_judge": {"judge_type": "math"}}}
    directory.write_config(given="", resolved=yaml.safe_dump(resolved), native={})
    directory.write_state(status="finished")
    store = EpisodeFiles(directory.episodes)
    for first in range(0, episodes, SIBLINGS):
        siblings = [make_episode(first + repeat, tokens, random) for repeat in range(SIBLINGS)]
        for one in siblings:
            store.add_episode(evolve(one, verdict=None))
        group = Group(task=siblings[0].task, step=siblings[0].step, split="train", episodes=tuple(siblings))
        store.add_verdicts(group)
    store.close()
    directory.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=5000)
    parser.add_argument("--tokens", type=int, default=512, help="sampled in each episode")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        path, conf = Path(home, "run"), Path(home, "new.yaml")
        write_run(path, options.episodes, options.tokens)
        conf.write_text("astuner:\n  task_judge: {judge_type: math}\n")
        wall, cpu = time.perf_counter(), time.process_time()
        found = replay_run(ReplayRequest(run=Run(path), conf=conf))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        size = sum(file.stat().st_size for file in (path / "episodes").iterdir()) / 1e6
    agreement = found.splits[0].agreement
    table = Table("episodes", "tokens each", "MB", "agreement", "CPU s", "wall s", title="astuner replay, judge math")
    row = (agreement.episodes, options.tokens, f"{size:.0f}", agreement.agreement, f"{cpu:.1f}", f"{wall:.1f}")
    table.add_row(*map(str, row))
    Console().print(table)


if __name__ == "__main__":
    main()
