from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner.contract.protocols import RunInfo
from astuner_devkit.contracts import LoggerContract
from astuner_loggers.wandb import WandbLogger

pytest.importorskip("wandb")


HIDDEN = {"api_key": "<redacted>", "greeting": "I am <redacted>", "password": "<redacted>"}


class TestWandb(LoggerContract):
    component = "astuner_loggers.wandb:WandbLogger"
    options: ClassVar[Mapping[str, Any]] = {"mode": "offline", "project": "mine", "tags": ["a"], "timeout_s": 600.0}


@pytest.fixture(scope="module")
def run(written: Callable[..., Path]) -> Path:
    return written(WandbLogger, mode="offline", episodes=2)


APPENDED = [(1, 0.1), (2, 0.2), (3, 0.3), (4, 1.4)]
"""What was written of a step stays: rows of wandb cannot be taken back."""


def records(run: Path) -> Iterator[Any]:
    """Yield the records of every offline run, in the order of their directories."""
    from wandb.proto import wandb_internal_pb2

    for path in sorted(run.glob("wandb/wandb/offline-run-*/*.wandb")):
        for content in _contents(path.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(content)
            yield record


def _contents(data: bytes, block: int = 32768, header: int = 7) -> Iterator[bytes]:
    """Yield what the LevelDB log holds, put together."""
    place, parts = header, b""
    while place + header <= len(data):
        if block - place % block < header:
            place += block - place % block
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + header])
        parts += data[place + header : place + header + length]
        place += header + length
        if kind in (1, 4):
            yield parts
            parts = b""


def history(run: Path) -> list[dict[str, Any]]:
    return [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for record in records(run)
        if record.WhichOneof("record_type") == "history"
    ]


def test_what_was_written_is_read_back_without_repetition(run: Path) -> None:
    rows = history(run)
    assert [(row["step"], row["reward/mean"]) for row in rows if "reward/mean" in row] == APPENDED
    assert [(row["step"], row["val/pass@4"]) for row in rows if "val/pass@4" in row] == [(0, 0.5)]
    assert [row["_step"] for row in rows] == sorted({row["_step"] for row in rows})


def test_both_attempts_are_one_run_with_the_configuration_and_the_name(run: Path) -> None:
    runs = [record.run for record in records(run) if record.WhichOneof("record_type") == "run"]
    assert {(run.project, run.display_name) for run in runs} == {("project", "experiment")}
    assert len({run.run_id for run in runs}) == 1
    config = {item.key: json.loads(item.value_json) for item in runs[0].config.update}
    assert config["seed"] == 42
    assert config["plugins"]["options"]["mine"] == HIDDEN


def test_episodes_are_a_table_and_rewards_a_histogram(run: Path) -> None:
    (row,) = [row for row in history(run) if row["step"] == 1 and "reward/distribution/values" in row]
    assert sum(row["reward/distribution/values"]) == 3
    (table,) = [json.loads(path.read_text()) for path in run.rglob("*.table.json") if "answer *1*" in path.read_text()]
    assert [(name, reward) for name, reward, _ in table["data"]] == [("e3", 0.0), ("e1", 1.0)]
    assert [row["step"] for row in history(run) if "val/transcripts/path" in row] == [0]


def test_the_number_of_validation_episodes_and_their_transcripts_have_names_of_their_own(run: Path) -> None:
    (number,) = [row for row in history(run) if "val/episodes" in row]
    assert (number["step"], number["val/episodes"]) == (0, 8.0)


def test_charts_are_drawn_over_the_step(run: Path) -> None:
    defined = [record.metric for record in records(run) if record.WhichOneof("record_type") == "metric"]
    assert ("*", "step") in {(metric.glob_name, metric.step_metric) for metric in defined}


def test_offline_nothing_leaves_the_run_directory(run: Path, machine: Any, secrets_in: Any) -> None:
    assert (machine.reached_for, machine.littered, secrets_in(run)) == ([], [], [])


@pytest.mark.parametrize(
    ("option", "variables", "expected"),
    [
        (None, {}, "offline"),
        (None, {"WANDB_API_KEY": "key"}, "online"),
        (None, {"WANDB_API_KEY": "key", "WANDB_MODE": "offline"}, "offline"),
        ("offline", {"WANDB_API_KEY": "key"}, "offline"),
        ("online", {}, "online"),
    ],
)
def test_it_is_online_where_there_is_a_key_or_the_user_says_so(
    option: Any, variables: dict[str, str], expected: str, info: RunInfo, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    logger = WandbLogger.from_run(WandbLogger.Options(mode=option), info)
    assert logger._service.where == expected
    logger.close()
