from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from astuner.contract.errors import RunFailed
from astuner.episodes.builtin.loggers.jsonl_logger import JsonlLogger
from astuner_devkit.run_infos import run_info

TRAIN = {"reward/mean": 0.5, "signal/calls": 8, "loss/policy": -0.25}
VALIDATION = {"val/reward/mean": 0.75, "val/pass@4": 1.0}


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_file_is_metrics_jsonl_in_the_run_directory(tmp_path: Path) -> None:
    info = run_info(tmp_path)
    logger = JsonlLogger.from_run(None, info)
    logger.log(1, TRAIN)
    assert rows(tmp_path / "run" / "metrics.jsonl") == [{"step": 1, "kind": "train", **TRAIN}]


def test_a_row_is_in_the_file_before_the_logger_is_closed(tmp_path: Path) -> None:
    logger = JsonlLogger(tmp_path / "metrics.jsonl")
    logger.log(1, TRAIN)
    logger.log(1, VALIDATION)
    assert rows(tmp_path / "metrics.jsonl") == [
        {"step": 1, "kind": "train", **TRAIN},
        {"step": 1, "kind": "validation", **VALIDATION},
    ]


def test_metrics_of_a_step_and_of_a_validation_that_come_together_become_two_rows(tmp_path: Path) -> None:
    JsonlLogger(tmp_path / "metrics.jsonl").log(3, {**TRAIN, **VALIDATION})
    assert [row["kind"] for row in rows(tmp_path / "metrics.jsonl")] == ["train", "validation"]
    assert "val/reward/mean" not in rows(tmp_path / "metrics.jsonl")[0]


def test_a_validation_may_bring_its_own_time(tmp_path: Path) -> None:
    JsonlLogger(tmp_path / "metrics.jsonl").log(3, {**VALIDATION, "time/validation_s": 2.0})
    assert rows(tmp_path / "metrics.jsonl") == [{"step": 3, "kind": "validation", **VALIDATION, "time/validation_s": 2.0}]


def test_numbers_are_plain_json_whatever_their_type(tmp_path: Path) -> None:
    metrics: dict[str, Any] = {"lr": np.float32(0.5), "kl/mean": float("nan"), "grad/norm": float("inf")}
    JsonlLogger(tmp_path / "metrics.jsonl").log(1, metrics)
    assert rows(tmp_path / "metrics.jsonl") == [{"step": 1, "kind": "train", "lr": 0.5, "kl/mean": None, "grad/norm": None}]


def test_rows_after_a_checkpoint_are_dropped_and_later_ones_appended(tmp_path: Path) -> None:
    logger = JsonlLogger(tmp_path / "metrics.jsonl")
    for step in (1, 2, 3):
        logger.log(step, TRAIN)
    logger.log(2, VALIDATION)
    logger.truncate_after(2)
    logger.log(3, {"reward/mean": 0.9})
    found = [(row["step"], row["kind"], row.get("reward/mean")) for row in rows(tmp_path / "metrics.jsonl")]
    assert found == [(1, "train", 0.5), (2, "train", 0.5), (2, "validation", None), (3, "train", 0.9)]


def test_half_a_row_that_a_crash_left_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "kind": "train"}\n{"step": 2, "ki', encoding="utf-8")
    JsonlLogger(path).log(2, {"lr": 0.5})
    assert rows(path) == [{"step": 1, "kind": "train"}, {"step": 2, "kind": "train", "lr": 0.5}]


def test_a_foreign_line_stops_a_resume_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\nhello\n', encoding="utf-8")
    with pytest.raises(RunFailed, match=r"metrics\.jsonl:2: not a row of metrics: 'hello"):
        JsonlLogger(path).truncate_after(1)
