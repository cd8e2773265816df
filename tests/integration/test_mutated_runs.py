"""Run directories with random damage: reading them to resume either works or ends with an error that names the file.

`ASTUNER_MUTATED_RUNS` sets their number, `ASTUNER_MUTATED_SEED` the random numbers.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict
from harness import SMALL, Cli
from runs_on_disk import record

from astuner.contract.errors import AstunerError
from astuner.contract.schema import Episode
from astuner.episodes.builtin.loggers.jsonl_logger import JsonlLogger
from astuner.episodes.rollout.sampler import TaskSampler
from astuner.runs.driver.replayed_steps import read_step_times
from astuner.runs.driver.run_facts import collect_run_facts
from astuner.runs.driver.sources import collect_sources
from astuner.runs.driver.start_step import choose_start, prepare_resume
from astuner.runs.inspection.run import Run
from astuner.runs.store.checkpoints import check_intact, find_checkpoint
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import SPLITS, EpisodeFiles
from astuner.settings.planning.plan import Plan, plan_run
from astuner.settings.plugins.drivers import construct, load
from astuner_tools.run_summary import summarise

COUNT = int(os.environ.get("ASTUNER_MUTATED_RUNS", "100"))
SEED = os.environ.get("ASTUNER_MUTATED_SEED", "1")
LONGER = "trainer_common.total_training_steps=9"
LIMIT = 3
"""Mutations of one directory, at most."""


@pytest.fixture(scope="module")
def whole(quickstart: Path, cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("whole") / "project"
    shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("model", "launcher_record"))
    (home / "model").symlink_to(quickstart / "model")
    finished = cli("run", "--conf", "tune.yaml", *SMALL, "--set=trainer_common.val_before_train=true", cwd=home)
    assert finished.returncode == 0, finished.stderr
    return home


@pytest.fixture(scope="module")
def plan(whole: Path) -> Plan:
    options = [option.removeprefix("--set=") for option in SMALL if option.startswith("--set=")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(whole)
        return plan_run(whole / "tune.yaml", [*options, "trainer_common.val_before_train=true", LONGER], "local")


@pytest.fixture(scope="module")
def tasks(plan: Plan) -> TaskSampler:
    return plan.sample_tasks(construct(plan.reader.candidate, load(plan.reader.candidate), plan.reader.options, plan.run_info()))


def flip(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return b"\xff"
    position = rng.randrange(len(content))
    return content[:position] + bytes([content[position] ^ (1 << rng.randrange(8))]) + content[position + 1 :]


def truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def fill_with_zeros(content: bytes, rng: random.Random) -> bytes:
    begin = rng.randrange(len(content) + 1)
    end = min(len(content), begin + rng.choice((1, 16, 512, 4096)))
    return content[:begin] + bytes(end - begin) + content[end:] + rng.choice((b"", bytes(512), bytes(512) + b"\n"))


def overwrite(content: bytes, rng: random.Random) -> bytes:
    begin = rng.randrange(len(content) + 1)
    return content[:begin] + rng.randbytes(rng.choice((1, 4, 64))) + content[begin + 4 :]


def duplicate_line(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    if lines:
        chosen = rng.randrange(len(lines))
        lines.insert(rng.randrange(len(lines) + 1), lines[chosen])
    return b"".join(lines)


def drop_line(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    if lines:
        del lines[rng.randrange(len(lines))]
    return b"".join(lines)


CHANGES: list[Callable[[bytes, random.Random], bytes | None]] = [
    flip,
    flip,
    truncate,
    fill_with_zeros,
    overwrite,
    duplicate_line,
    drop_line,
    lambda content, rng: b"",
    lambda content, rng: None,
]


def mutate(run: Path, rng: random.Random) -> list[str]:
    """Damage files of a run; return what was done. Each kind of file has the same chance, whatever its size."""
    files = sorted(path for path in run.rglob("*") if path.is_file())
    kinds = {}
    for path in files:
        kinds.setdefault(path.name, []).append(path)
    done = []
    for _ in range(rng.randint(1, LIMIT)):
        path = rng.choice(kinds[rng.choice(sorted(kinds))])
        change = rng.choice(CHANGES)
        if not path.exists():
            continue
        content = change(path.read_bytes(), rng)
        # Not into the file of the run that it may be a hard link to.
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        done.append(f"{path.relative_to(run)}: {getattr(change, '__name__', change)}")
    return done


def read_as_a_resume_does(run: Path, plan: Plan, tasks: TaskSampler, sources: dict[str, Any]) -> dict[str, Episode]:
    """Do everything that `astuner run --resume` does before it loads the model; return what it would replay."""
    directory = RunDirectory(run)
    directory.open()
    said: list[str] = []
    try:
        start = choose_start(directory, plan, resume=True)
        store = EpisodeFiles(directory.episodes, replay_after=start.replay_after, report=said.append)
        try:
            facts = collect_run_facts(plan) | {"sources": sources}
            if start.resumed:
                said += prepare_resume(directory, plan, store, tasks, start, facts, ())
            read_step_times(directory.metrics, start.step)
            directory.write_run(facts)
            logger = JsonlLogger(directory.metrics)
            if (after := start.replay_after) is not None:
                logger.truncate_after(after)
            logger.close()
            directory.write_state(status="running")
            ids = [f"{split}/{step}/{task}" for split, step, task in identities(run.parent / "ids.json")]
            return {identity: found for identity in ids if (found := store.recall(identity)) is not None}
        finally:
            store.close()
    finally:
        directory.close()


def look_at(run: Path, known: dict[str, str]) -> None:
    """Read everything that people look at: what is damaged is left out, and what is shown is what was stored."""
    found = Run(run, [].append)
    summarise(found)
    for split in SPLITS:
        for episode in found.episodes(split=split):
            assert to_text(episode) == known[episode.id] or episode.verdict is None, episode.id


def identities(path: Path) -> list[list[str]]:
    found: list[list[str]] = json.loads(path.read_text())
    return found


def to_text(episode: Episode) -> str:
    return json.dumps(asdict(episode), default=lambda array: array.tolist(), sort_keys=True)


def test_a_damaged_run_is_read_or_refused_with_the_name_of_the_file(
    whole: Path, plan: Plan, tasks: TaskSampler, tmp_path: Path
) -> None:
    original = record(whole)
    ids = []
    for split in ("train", "validation"):
        for line in (original / "episodes" / f"{split}.jsonl").read_text().splitlines():
            entry = json.loads(line)
            if entry["kind"] == "episode":
                ids.append(entry["episode"]["id"].split("/", 2))
    (tmp_path / "ids.json").write_text(json.dumps(ids))
    sources = collect_sources(
        plan, construct(plan.reader.candidate, load(plan.reader.candidate), plan.reader.options, plan.run_info()), tasks
    )
    everything = EpisodeFiles(original / "episodes", replay_after=-1)
    known = {identity: to_text(found) for identity in map("/".join, ids) if (found := everything.recall(identity)) is not None}
    everything.close()
    assert len(known) == len(ids)
    rng = random.Random(SEED)
    refused = read = replays = 0
    for number in range(COUNT):
        run = tmp_path / "run"
        shutil.copytree(original, run, copy_function=os.link)
        # These are written to in their place.
        for path in (*run.glob("episodes/*.jsonl"), run / "metrics.jsonl", run / "lock"):
            content = path.read_bytes()
            path.unlink()
            path.write_bytes(content)
        for step in (4, 2)[: rng.randrange(3)]:
            # So that there are episodes to replay.
            shutil.rmtree(run / "checkpoints" / f"step_{step}")
        done = mutate(run, rng)
        try:
            look_at(run, known)
        except Exception as error:
            raise AssertionError(f"looking at run {number} of seed {SEED}, after {done}") from error
        try:
            replayed = read_as_a_resume_does(run, plan, tasks, sources)
            read += 1
            for identity, episode in replayed.items():
                # A damaged verdict is given again.
                assert to_text(episode) == known[identity] or episode.verdict is None, (number, done, identity)
            replays += len(replayed)
        except AstunerError as error:
            assert str(run) in str(error) or "astuner." in str(error), (number, done, error)  # noqa: PT017
            refused += 1
        except Exception as error:
            raise AssertionError(f"run {number} of seed {SEED}, after {done}") from error
        for name in ("best", "last", "2"):
            try:
                check_intact(find_checkpoint(RunDirectory(run), name))
            except AstunerError as error:
                assert str(run) in str(error), (number, done, error)  # noqa: PT017
        shutil.rmtree(run)
    print(f"{COUNT} mutated runs: {read} read, {refused} refused by name, {replays} episodes replayed")
    assert replays
    assert refused or COUNT < 50
