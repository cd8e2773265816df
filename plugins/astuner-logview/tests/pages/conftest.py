from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.schema import Episode, Failure, Finding, Group, Unjudged, Verdict
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import EpisodeFiles
from astuner_devkit.episodes import episode, group
from astuner_devkit.tokenizer import tiny_tokenizer
from astuner_logview.index.places import find_index
from astuner_logview.index.writer import IndexWriter
from astuner_logview.library import Library
from astuner_logview.pages.addresses import PAGES
from astuner_logview.parameters import Parameters

Ask = Callable[..., dict[str, Any]]


def store_groups(path: Path, groups: Sequence[Group]) -> None:
    """Append groups to a run, as a process does that plays it."""
    store = EpisodeFiles(path / "episodes")
    for one in groups:
        for each in one.played:
            store.add_episode(evolve(each, verdict=None))
        store.add_verdicts(one)
    store.close()


def make_run(path: Path) -> Path:
    """Make a run of two steps with every outcome that an episode may have."""
    directory = RunDirectory(path)
    directory.open()
    directory.write_run({"backbone": "local", "experiment_name": path.name, "plugins": [{"kind": "judge", "name": "math"}]})
    given = "astuner:\n  backbone: local\n"
    directory.write_config(given=given, resolved=given, native={})
    tiny_tokenizer().backend_tokenizer.save(str(_make_checkpoint(directory)))
    store_groups(path, make_groups())
    directory.metrics.write_text('{"step": 1, "kind": "train", "reward/mean": 0.5, "time/step_s": 2.0}\n')
    directory.write_state(status="finished", step=1)
    directory.close()
    return path


def make_groups() -> list[Group]:
    judged = Verdict(0.0, False, components={"format": 0.5}, rationale="The proof is circular.")
    failed = evolve(episode(2, 0.0, task="a", success=False), output=None, samples=(), untrained={"failed": 3}, verdict=None)
    return [
        group(
            evolve(episode(0, task="a", success=True), duration_s=3.0),
            evolve(episode(1, task="a"), verdict=judged, findings={"nonsense": (Finding(call=0, evidence="odd"),)}),
            evolve(failed, failures=(Failure(reason="timeout", detail="too slow", tokens=2),)),
        ),
        group(episode(0, 0.5, task="b"), episode(1, 0.5, task="b")),
        group(_unjudge(episode(0, task="c", step=2)), episode(1, 0.25, task="c", step=2, agents=("critic", "solver"))),
    ]


def _unjudge(one: Episode) -> Episode:
    return evolve(one, verdict=Unjudged(reason="judge_timeout", detail="no answer"))


def _make_checkpoint(directory: RunDirectory) -> Path:
    place = directory.checkpoint(1)
    place.mkdir(parents=True)
    return place / "tokenizer.json"


def index_run(path: Path) -> None:
    """Index a run in this process."""
    writer = IndexWriter(path.resolve(), find_index(path.resolve()))
    while writer.advance():
        pass
    writer.close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def record(tmp_path: Path) -> Path:
    path = tmp_path / "record"
    index_run(make_run(path / "first"))
    return path


@pytest.fixture
def library(record: Path) -> Library:
    return Library([record])


@pytest.fixture
def ask(library: Library) -> Ask:
    """Answer an address about the first run."""

    def answer(address: str, **values: object) -> dict[str, Any]:
        run = next(one.id for one in library.list_runs() if one.run.name == "first")
        texts = {name: [str(value)] for name, value in values.items()}
        return PAGES[f"/api/runs/{{run}}{address}"](library, Parameters(run=run, values=texts))

    return answer


@pytest.fixture
def groups() -> list[Group]:
    """What the first run holds."""
    return make_groups()


@pytest.fixture
def make() -> Callable[[Path], Path]:
    """Make such a run in a directory."""
    return make_run


@pytest.fixture
def store() -> Callable[[Path, Sequence[Group]], None]:
    """Append groups to a run, and index it."""

    def append(path: Path, groups: Sequence[Group]) -> None:
        store_groups(path, groups)
        index_run(path)

    return append
