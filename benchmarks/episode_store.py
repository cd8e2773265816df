"""CPU time and bytes of the store of episodes, against lines with arrays of numbers, and of `astuner runs` over many runs.

`python benchmarks/episode_store.py [--megabytes 48] [--tokens 1024] [--runs 200] [--steps 100]`. The same episodes are written
as they are stored and as JSON with all arrays written out, which older versions have stored; `--megabytes` is the size of the
latter. Every figure is a median of five, in turns.
"""

from __future__ import annotations

import argparse
import io
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rich.console import Console
from rich.table import Table

from astuner.contract.schema import Call, Episode, Sample, Task, Verdict, WeightSpan, WorkflowOutput
from astuner.episodes.builtin.loggers.jsonl_logger import JsonlLogger
from astuner.runs.store.codec import dump_episode, dump_verdict, encode_episode, encode_record, load_episode
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_index import EpisodeIndex
from astuner.runs.store.episode_store import StoredEpisodes
from astuner.runs.store.store_lines import read_line, seal
from astuner_tools.runs import runs

TURNS = 5
SIBLINGS, GROUPS = 8, 4
WORDS = Path(__file__).parent.parent / "CHANGELOG.md"
CHARACTERS = 4
"""Of text for each token."""


def make_episode(step: int, task: str, repeat: int, tokens: int, random: np.random.Generator, text: str) -> Episode:
    """Return a conversation of four turns in which half of the tokens are sampled, from 50,000 words as frequent as Zipf says."""
    each = tokens // 8
    calls: list[Call] = []
    for turn in range(4):
        fed, sampled = (np.minimum(random.zipf(1.2, each), 50_000).astype(np.int32) for _ in range(2))
        first = int(random.integers(0, len(text) - 2 * CHARACTERS * each))
        call = Call(
            index=turn,
            agent="agent",
            target_tag="agent",
            parent=turn - 1 if turn else None,
            kept=2 * each * turn,
            prompt_ids=fed,
            output_ids=sampled,
            logprobs=-np.log1p(np.exp(-random.normal(3, 3, each))).astype(np.float32),
            finish_reason="stop",
            weights=(WeightSpan(start=0, version=step - 1),),
            messages=({"role": "user", "content": text[first : first + CHARACTERS * each]},),
            reply={"role": "assistant", "content": text[first + CHARACTERS * each : first + 2 * CHARACTERS * each]},
        )
        calls.append(call)
    mask = np.tile(np.repeat([False, True], each), 4)
    logprobs = np.zeros(len(mask), np.float32)
    logprobs[mask] = np.concatenate([call.logprobs for call in calls])
    identity = f"train/{step}/{task}/{repeat}"
    sample = Sample(
        episode_id=identity,
        task_id=task,
        repeat=repeat,
        agent="agent",
        ids=np.concatenate([part for call in calls for part in (call.prompt_ids, call.output_ids)]),
        mask=mask,
        logprobs=logprobs,
        calls=(0, 1, 2, 3),
    )
    return Episode(
        id=identity,
        task=Task("How much does Janet make?", task_id=task, metadata={"answer": "18"}),
        step=step,
        repeat=repeat,
        output=WorkflowOutput(metadata={"final_answer": "18"}),
        calls=tuple(calls),
        samples=(sample,),
    )


def encode_arrays(episode: Episode) -> bytes:
    """Return the line of an episode with its arrays written out."""
    return encode_record({"kind": "episode", "episode": dump_episode(episode)})


def write_stores(packed: Path, plain: Path, megabytes: float, tokens: int) -> tuple[int, int]:
    """Write the same episodes in both forms; return the last step, and the number of episodes."""
    random, text = np.random.default_rng(0), WORDS.read_text(encoding="utf-8")
    for path in (packed, plain):
        path.mkdir()
        (path / "validation.jsonl").touch()
    step = count = 0
    with (packed / "train.jsonl").open("wb") as short, (plain / "train.jsonl").open("wb") as long:
        while long.tell() < megabytes * 1e6:
            step += 1
            for group in range(GROUPS):
                task = f"task-{step * GROUPS + group}"
                found = [make_episode(step, task, repeat, tokens, random, text) for repeat in range(SIBLINGS)]
                verdicts = {one.id: dump_verdict(Verdict(float(random.integers(2)), rationale="As wanted.")) for one in found}
                record = {"kind": "verdicts", "step": step, "group": f"train/{step}/{task}", "verdicts": verdicts}
                count += len(found)
                for file, encode in ((short, encode_episode), (long, encode_arrays)):
                    file.write(b"".join(seal(encode(one)) for one in found) + seal(encode_record(record)))
    return step, count


def decode_all(path: Path) -> int:
    """Decode every line, as an index did that knew no facts."""
    with path.open("rb") as file:
        return sum(len(read_line(line)) for line in file)


def measure(actions: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the CPU seconds of each action: medians, in turns."""
    found: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(TURNS):
        for name, action in actions.items():
            began = time.process_time()
            action()
            found[name].append(time.process_time() - began)
    return {name: statistics.median(times) for name, times in found.items()}


def measure_store(home: Path, megabytes: float, tokens: int, console: Console) -> None:
    packed, plain = home / "packed", home / "plain"
    last, count = write_stores(packed, plain, megabytes, tokens)
    sizes = {path: (path / "train.jsonl").stat().st_size for path in (packed, plain)}
    made = make_episode(1, "t", 0, tokens, np.random.default_rng(1), WORDS.read_text(encoding="utf-8"))
    lines = {name: encode(made) for name, encode in (("packed", encode_episode), ("plain", encode_arrays))}
    actions = {
        "full decode": lambda: decode_all(plain / "train.jsonl"),
        "full decode, packed": lambda: decode_all(packed / "train.jsonl"),
        "resume at the last step": lambda: StoredEpisodes(packed, replay_after=last - 1),
        "resume at the last step, older lines": lambda: StoredEpisodes(plain, replay_after=last - 1),
        "index of all episodes (`compare`, `episodes`)": lambda: EpisodeIndex(packed / "train.jsonl"),
        "writing 100 episodes": lambda: [encode_episode(made) for _ in range(100)],
        "writing 100 episodes, older lines": lambda: [encode_arrays(made) for _ in range(100)],
        "loading 100 episodes": lambda: [load_episode(read_line(lines["packed"])["episode"]) for _ in range(100)],
        "loading 100 episodes, older lines": lambda: [load_episode(read_line(lines["plain"])["episode"]) for _ in range(100)],
    }
    found = measure(actions)
    table = Table("what", "CPU s", "full decode / this", title=f"{count} episodes of {tokens} tokens")
    for name, seconds in found.items():
        ratio = "" if "100" in name else f"{found['full decode'] / seconds:.1f}"
        table.add_row(name, f"{seconds:.3f}", ratio)
    console.print(table)
    table = Table("form", "MB", "bytes a token", title="texts included, four characters a token")
    for name, path in (("packed", packed), ("arrays of numbers", plain)):
        table.add_row(name, f"{sizes[path] / 1e6:.1f}", f"{sizes[path] / count / tokens:.1f}")
    console.print(table)


def write_runs(home: Path, count: int, steps: int) -> None:
    """Write finished runs with as many metrics and keys as real ones have."""
    keys = {f"section_{number}": {f"key_{key}": key for key in range(20)} for number in range(12)}
    resolved = {"astuner": {"trainer_common": {"total_training_steps": steps}, **keys}}
    for number in range(count):
        directory = RunDirectory(home / f"run-{number:03d}")
        directory.open()
        directory.write_run({"backbone": "local", "experiment_name": directory.path.name, "total_training_steps": steps})
        directory.write_config(given="", resolved=yaml.safe_dump(resolved), native={})
        metrics = JsonlLogger(directory.metrics)
        others = {f"signal/metric_{key}": key / 7 for key in range(60)}
        for step in range(1, steps + 1):
            row = {"reward/mean": step / steps, "time/step_s": 1.5, "tokens/generated": 4096.0, **others}
            metrics.log(step, row)
        metrics.close()
        directory.write_state(status="finished", step=steps)
        directory.close()


def list_runs(home: Path) -> None:
    with redirect_stdout(io.StringIO()):
        runs.main([str(home)], standalone_mode=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=48)
    parser.add_argument("--tokens", type=int, default=1024, help="of each episode")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as home:
        measure_store(Path(home), options.megabytes, options.tokens, console)
    with tempfile.TemporaryDirectory() as home:
        write_runs(Path(home), options.runs, options.steps)
        seconds = measure({"runs": lambda: list_runs(Path(home))})["runs"]
        console.print(f"astuner runs: {options.runs} runs of {options.steps} steps in {seconds:.2f} CPU s")


if __name__ == "__main__":
    main()
