from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

from astuner.runs.store.token_store import Stretches, TokenColumns, TokenStore, TrainedTokens
from astuner_devkit.episodes import episode
from astuner_logview.tokens.paths import find_path
from astuner_logview.tokens.streams import build_stream
from astuner_logview.trainer_values import FOLDER, TrainerRecords, describe_record


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that has recorded the last two tokens of an answer of three."""
    half = {name: np.array([0.5, 1.0], np.float16) for name in ("logprobs", "entropies", "ratios", "advantages", "rl", "ce")}
    half["reference_logprobs"] = half["ref_kl"] = np.array([np.nan, np.nan], np.float16)
    numbers = {name: np.array([0], np.int32) for name in ("episode", "agent", "call")}
    TokenStore(tmp_path / FOLDER).write(
        TrainedTokens(
            step=1,
            episodes=("train/1/t/0",),
            agents=("agent",),
            stretches=Stretches(**numbers, start=np.array([1], np.int32), count=np.array([2], np.int32)),
            columns=TokenColumns(**half, clips=np.array([0, 2], np.uint8)),
        )
    )
    return tmp_path


def test_recorded_numbers_are_those_of_their_tokens(run: Path) -> None:
    found = TrainerRecords().read(run, episode())
    stream = build_stream(episode(), find_path(episode(), 0), None, found.calls, {})
    expected = np.array([np.nan, np.nan, np.nan, 0.5, 1.0], np.float32)
    for measure in ("trainer_logprob", "entropy", "ratio", "advantage", "rl"):
        assert np.array_equal(stream.values[measure], expected, equal_nan=True), measure
    assert "ref_logprob" not in stream.values
    assert stream.clipped is not None
    assert stream.clipped.tolist() == [0, 0, 0, 0, 2]
    assert np.isfinite(stream.values["loss"]).tolist() == [False, False, False, True, True]


def test_a_record_is_counted(run: Path) -> None:
    record = describe_record(run)
    assert record is not None
    assert (record["steps"], record["bytes"]) == (1, (run / FOLDER / "step_1.npz").stat().st_size)


def test_a_step_without_a_record_says_so(run: Path) -> None:
    found = TrainerRecords().read(run, episode(step=2))
    assert (found.calls, found.text) == ({}, "the run has no record of step 2")


def test_a_damaged_record_says_so(run: Path) -> None:
    (run / FOLDER / "step_1.npz").write_bytes(b"PK nothing")
    assert TrainerRecords().read(run, episode()).text == "the record of step 1 is damaged"


def test_an_episode_that_was_not_trained_says_so(run: Path) -> None:
    found = TrainerRecords().read(run, episode(3))
    assert (found.calls, found.text) == ({}, "no token of this episode was trained in step 1")


def test_a_validation_is_not_trained(run: Path) -> None:
    assert "validation" in TrainerRecords().read(run, evolve(episode(), split="validation")).text


def test_a_run_without_records_says_so(tmp_path: Path) -> None:
    assert describe_record(tmp_path) is None
    assert "trainer_common.token_record" in TrainerRecords().read(tmp_path, episode()).text
