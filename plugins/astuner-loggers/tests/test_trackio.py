from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner.contract.errors import PluginError
from astuner_devkit.contracts import LoggerContract
from astuner_devkit.run_infos import run_info
from astuner_loggers.trackio import TrackioLogger

pytest.importorskip("trackio")


HIDDEN = {"api_key": "<redacted>", "greeting": "I am <redacted>", "password": "<redacted>"}


class TestTrackio(LoggerContract):
    component = "astuner_loggers.trackio:TrackioLogger"
    options: ClassVar[Mapping[str, Any]] = {"episodes": 1, "timeout_s": 600.0}


@pytest.fixture(scope="module")
def run(written: Callable[..., Path]) -> Path:
    return written(TrackioLogger, episodes=2)


def rows(run: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(run / "trackio" / "project.db")) as database:
        return database.execute(query).fetchall()


def logged(run: Path, name: str) -> list[tuple[int, Any]]:
    found = [(step, json.loads(text)) for step, text in rows(run, "SELECT step, metrics FROM metrics ORDER BY step, id")]
    return [(step, metrics[name]) for step, metrics in found if name in metrics]


def test_a_resumed_run_replaces_the_steps_after_its_checkpoint(run: Path) -> None:
    assert logged(run, "reward/mean") == [(1, 0.1), (2, 1.2), (3, 1.3), (4, 1.4)]
    assert logged(run, "val/pass@4") == [(0, 0.5)]


def test_both_attempts_are_one_run_with_the_configuration_and_the_name(run: Path) -> None:
    ((run_name, config),) = rows(run, "SELECT run_name, config FROM configs")
    assert run_name == "experiment"
    assert json.loads(config)["plugins"]["options"]["mine"] == HIDDEN


def test_episodes_are_a_table_and_rewards_a_histogram(run: Path) -> None:
    (_, table), _ = logged(run, "transcripts")
    assert [(row["episode"], row["reward"]) for row in table["_value"]] == [("e3", 0.0), ("e1", 1.0)]
    assert "answer *1*" in table["_value"][1]["transcript"]
    (_, histogram), _ = logged(run, "reward/distribution")
    assert sum(histogram["values"]) == 3
    assert [step for step, _ in logged(run, "val/transcripts")] == [0]


def test_the_number_of_validation_episodes_and_their_transcripts_have_names_of_their_own(run: Path) -> None:
    assert logged(run, "val/episodes") == [(0, 8.0)]


def test_nothing_leaves_the_run_directory(run: Path, machine: Any, secrets_in: Any) -> None:
    assert (machine.reached_for, machine.littered, secrets_in(run)) == ([], [], [])


def test_a_later_run_of_the_same_name_in_a_shared_directory_is_left_alone(tmp_path: Path) -> None:
    shared = tmp_path / "shared"

    def made(home: str) -> TrackioLogger:
        options = TrackioLogger.Options(directory=str(shared), timeout_s=600.0)
        return TrackioLogger.from_run(options, run_info(tmp_path / home, directory=tmp_path / home))

    for home in ("one", "other"):
        logger = made(home)
        for step in (1, 2):
            logger.log(step, {"reward/mean": float(step)})
        logger.close()
    resumed = made("one")
    resumed.truncate_after(1)
    with pytest.raises(PluginError, match=r"is another than the one that is resumed.*its own 'name' or 'directory'"):
        resumed.log(2, {"reward/mean": 3.0})
    resumed.close()
    with closing(sqlite3.connect(next(shared.glob("*.db")))) as database:
        found = database.execute("SELECT step, COUNT(*), COUNT(DISTINCT run_id) FROM metrics GROUP BY step").fetchall()
    assert found == [(1, 2, 2), (2, 2, 2)]
