from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner_devkit.contracts import LoggerContract
from astuner_loggers.swanlab import SwanlabLogger

pytest.importorskip("swanlab")


class TestSwanlab(LoggerContract):
    component = "astuner_loggers.swanlab:SwanlabLogger"
    options: ClassVar[Mapping[str, Any]] = {"directory": "boards", "name": "mine", "tags": ["a"], "timeout_s": 600.0}


@pytest.fixture(scope="module")
def run(written: Callable[..., Path]) -> Path:
    return written(SwanlabLogger, episodes=2)


def records(run: Path) -> Iterator[Any]:
    """Yield the records of every offline run, in the order of their directories."""
    from swanlab.proto.swanlab.record.v1.record_pb2 import Record
    from swanlab.sdk.internal.core_python.store import DataStoreReader

    for path in sorted(run.glob("swanlab/run-*/*.swanlab")):
        reader = DataStoreReader()
        reader.open(path)
        for content in reader:
            record = Record()
            record.ParseFromString(content)
            yield record
        reader.close()


def scalars(run: Path, name: str) -> list[tuple[int, float]]:
    found = [record.scalar for record in records(run) if record.WhichOneof("record_type") == "scalar"]
    return [(scalar.step, scalar.value.number) for scalar in found if scalar.key == name]


def test_what_was_written_is_read_back_without_repetition(run: Path) -> None:
    assert scalars(run, "reward/mean") == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 1.4)]
    assert scalars(run, "val/pass@4") == [(0, 0.5)]


def test_the_number_of_validation_episodes_and_their_transcripts_have_names_of_their_own(run: Path) -> None:
    assert scalars(run, "val/episodes") == [(0, 8.0)]
    names = {record.column.column_key for record in records(run) if record.WhichOneof("record_type") == "column"}
    assert {"val/episodes", "val/transcripts"} <= names


def test_both_attempts_are_one_run_with_the_configuration_and_the_name(run: Path) -> None:
    starts = [record.start for record in records(run) if record.WhichOneof("record_type") == "start"]
    assert {(start.project, start.name) for start in starts} == {("project", "experiment")}
    assert [start.id for start in starts] == [starts[0].id] * 2
    config = next(iter(sorted(run.glob("swanlab/run-*/files/config.yaml")))).read_text()
    assert "seed" in config
    assert "<redacted>" in config


def test_episodes_are_texts_and_rewards_a_chart(run: Path) -> None:
    texts = [path.read_text() for path in run.glob("swanlab/run-*/media/text/*")]
    assert sorted("".join(char for char in text if char in "013") and text.count("answer") for text in texts) == [1, 1, 1, 1]
    (chart,) = [json.loads(path.read_text()) for path in run.rglob("001-*.json")]
    assert sum(chart["series"][0]["data"]) == 3


def test_offline_nothing_leaves_the_run_directory(run: Path, machine: Any, secrets_in: Any) -> None:
    assert (machine.reached_for, machine.littered, secrets_in(run)) == ([], [], [])
