from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from astuner.contract.schema import Group, Unjudged
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import EpisodeFiles
from astuner_devkit.episodes import episode, group
from astuner_logview.errors import Missing
from astuner_logview.index.places import find_index
from astuner_logview.index.writer import IndexWriter
from astuner_logview.library import Library
from astuner_logview.live import Feed, LiveEvent


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "record" / "growing"
    directory = RunDirectory(path)
    directory.open()
    directory.write_run({"backbone": "local"})
    directory.close()
    add(path, group(episode(0), episode(1)))
    return path.resolve()


def add(run: Path, *groups: Group) -> None:
    store = EpisodeFiles(run / "episodes")
    for one in groups:
        for each in one.episodes:
            store.add_episode(evolve(each, verdict=None))
        store.add_verdicts(one)
    store.close()
    index(run)


def index(run: Path) -> None:
    writer = IndexWriter(run.resolve(), find_index(run.resolve()))
    while writer.advance():
        pass
    writer.close()


@pytest.fixture
def feed(run: Path) -> Feed:
    library = Library([run.parent])
    return Feed(library=library, run=library.list_runs()[0].id)


def names(events: list[LiveEvent]) -> list[str]:
    return [event.name for event in events]


def test_nothing_is_new_without_a_change(feed: Feed) -> None:
    feed.poll()
    assert feed.poll() == []


def test_new_episodes_and_failures_are_events(feed: Feed, run: Path) -> None:
    feed.poll()
    failed = evolve(episode(1, step=2), verdict=Unjudged(reason="judge_error"))
    add(run, group(episode(0, step=2), failed))
    events = {event.name: event.data for event in feed.poll()}
    assert events["episodes"]["added"] == 2
    assert [row["id"] for row in events["episodes"]["failed"]] == [failed.id]
    assert events["run"]["episodes"] == 4


def test_a_step_is_an_event_with_its_metrics(feed: Feed, run: Path) -> None:
    feed.poll()
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 1, "kind": "train", "reward/mean": 0.5}\n')
    (step,) = (event for event in feed.poll() if event.name == "step")
    assert (step.data["step"], step.data["split"], step.data["metrics"]["reward/mean"]) == (1, "train", 0.5)


def test_a_page_that_was_away_gets_what_it_missed(feed: Feed, run: Path) -> None:
    last = feed.poll()[-1].id
    add(run, group(episode(0, step=2)))
    again = Feed(library=feed.library, run=feed.run, last_id=last)
    (found,) = (event for event in again.poll() if event.name == "episodes")
    assert [row["id"] for row in found.data["rows"]] == ["train/2/t/0"]


def test_what_is_indexed_for_the_first_time_is_not_new(run: Path) -> None:
    find_index(run).unlink()
    library = Library([run.parent])
    feed = Feed(library=library, run=library.list_runs()[0].id)
    feed.poll()
    index(run)
    assert "episodes" not in names(feed.poll())
    add(run, group(episode(0, step=2)))
    assert "episodes" in names(feed.poll())


def test_all_runs_are_followed_at_once(run: Path) -> None:
    feed = Feed(library=Library([run.parent]))
    assert names(feed.poll()) == ["run"]
    add(run, group(episode(0, step=2)))
    assert [event.data["episodes"] for event in feed.poll()] == [3]


def test_a_run_that_is_not_there_is_refused(feed: Feed) -> None:
    with pytest.raises(Missing):
        Feed(library=feed.library, run="elsewhere")
