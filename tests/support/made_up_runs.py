"""Runs made up on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import evolve

from astuner.contract.schema import Episode, Failure
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import EpisodeFiles
from astuner_devkit.episodes import episode, group


def fail(one: Episode) -> Episode:
    return evolve(one, output=None, verdict=None, samples=(), failures=(Failure(reason="timeout", detail="too slow"),))


@pytest.fixture
def stored() -> list[Episode]:
    """Two steps of two tasks with two siblings; one has failed, and the judge failed on another."""
    return [
        episode(1, 0.5, task="b", step=2),
        episode(0, 0.25, task="b", step=1, success=False),
        episode(1, 1.0, task="b", step=1, success=True),
        episode(0, 0.0, task="a", step=1, success=False),
        fail(episode(1, task="a", step=1)),
        episode(0, None, task="b", step=2),
    ]


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., Path]:
    """Writes a run: `write_run("a", episodes=[…], rows=[…], settings={…}, status="finished")`.

    Verdicts are stored after the episodes, as a run stores them.
    """

    def write(
        name: str = "a",
        *,
        episodes: Sequence[Episode] = (),
        rows: Sequence[Mapping[str, Any]] = (),
        settings: Mapping[str, Any] | None = None,
        status: str | None = "finished",
    ) -> Path:
        directory = RunDirectory(tmp_path / "launcher_record" / name)
        directory.open()
        directory.write_run({"backbone": "local", "experiment_name": name})
        directory.write_config(given="", resolved=yaml.safe_dump({"astuner": {"seed": 0, **(settings or {})}}), native={})
        if status is not None:
            directory.write_state(status=status)
        directory.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
        store = EpisodeFiles(directory.episodes)
        for one in episodes:
            store.add_episode(evolve(one, verdict=None))
        for one in episodes:
            if one.verdict is not None:
                store.add_verdicts(group(one))
        store.close()
        directory.close()
        return directory.path

    return write
