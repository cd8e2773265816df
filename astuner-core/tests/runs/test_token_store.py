"""What was trained is kept token by token, within its budget, and read back as it was written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from attrs import fields
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from astuner.contract.errors import RunFailed
from astuner.runs.store.token_store import LARGEST, Stretches, TokenColumns, TokenStore, TrainedTokens, round_to_half
from astuner_devkit.episodes import episode

FLOATS = [one.name for one in fields(TokenColumns) if one.name != "clips"]


def tokens_of(step: int, counts: Sequence[int] = (3,), *, calls: Sequence[int] | None = None, **columns) -> TrainedTokens:
    total = sum(counts)
    numbers = {name: np.zeros(len(counts), np.int32) for name in ("episode", "agent", "start")}
    given_calls = np.arange(len(counts), dtype=np.int32) if calls is None else np.array(calls, np.int32)
    return TrainedTokens(
        step=step,
        episodes=("train/1/t/0",),
        agents=("agent",),
        stretches=Stretches(**{**numbers, "call": given_calls, "count": np.array(counts, np.int32)}),
        columns=TokenColumns(
            **{
                **{name: np.linspace(-1, 1, total).astype(np.float16) for name in FLOATS},
                "clips": np.arange(total, dtype=np.uint8) % 4,
                **columns,
            }
        ),
    )


@given(st.data())
def test_what_is_read_is_what_was_written_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, data) -> None:
    counts = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    halves = arrays.arrays(np.float16, sum(counts), elements=st.sampled_from([0.0, -0.0, 1.0, np.nan, -3.5, LARGEST]))
    written = tokens_of(7, counts, **{name: data.draw(halves) for name in FLOATS})
    store = TokenStore(tmp_path_factory.mktemp("signal"))
    store.write(written)
    read = store.read(7)
    for name in FLOATS:
        wanted, found = getattr(written.columns, name), getattr(read.columns, name)
        assert np.array_equal(np.isnan(wanted), np.isnan(found))
        assert wanted[~np.isnan(wanted)].tobytes() == found[~np.isnan(found)].tobytes()
    assert read.columns.clips.tolist() == written.columns.clips.tolist()
    assert (read.episodes, read.agents, read.step) == (written.episodes, written.agents, 7)


def test_the_same_step_makes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        TokenStore(tmp_path / name).write(tokens_of(1, (2, 3)))
    assert (tmp_path / "one" / "step_1.npz").read_bytes() == (tmp_path / "other" / "step_1.npz").read_bytes()


def test_a_value_that_all_tokens_of_a_stretch_share_is_stored_once(tmp_path: Path) -> None:
    varied, shared = TokenStore(tmp_path / "varied"), TokenStore(tmp_path / "shared")
    varied.write(tokens_of(1, (1000,)))
    shared.write(tokens_of(1, (1000,), advantages=np.full(1000, 0.5, np.float16), rl=np.full(1000, np.nan, np.float16)))
    assert varied.path(1).stat().st_size - shared.path(1).stat().st_size == 2 * 999 * 2


def test_the_values_of_a_call_are_aligned_to_its_output() -> None:
    call = episode().calls[0]
    trained = tokens_of(1, (2,), calls=[0], logprobs=np.array([-1, -2], np.float16))
    trained.stretches.start[0] = 1
    found = trained.of("train/1/t/0", call)
    np.testing.assert_array_equal(found.logprobs, np.array([np.nan, -1, -2], np.float16))
    assert found.clips.tolist() == [0, 0, 1]


@pytest.mark.parametrize("identity", ["train/1/t/0", "train/1/other/0"])
def test_a_call_of_which_nothing_was_trained_has_no_values(identity: str) -> None:
    assert tokens_of(1, calls=[5]).of(identity, episode().calls[0]) is None


def test_a_number_beyond_half_precision_stays_finite() -> None:
    rounded = round_to_half(np.array([1e9, -np.inf, np.nan, 0.5]))
    np.testing.assert_array_equal(rounded, np.array([LARGEST, -LARGEST, np.nan, 0.5], np.float16))


@pytest.fixture
def one_step(tmp_path: Path) -> int:
    """The bytes of a step's file."""
    store = TokenStore(tmp_path / "measured")
    store.write(tokens_of(1))
    return store.path(1).stat().st_size


def test_beyond_its_budget_the_record_keeps_the_newest_steps(tmp_path: Path, one_step: int) -> None:
    store = TokenStore(tmp_path, most_bytes=4.5 * one_step)
    for step in range(1, 8):
        store.write(tokens_of(step))
    assert store.list_steps() == [4, 5, 6, 7]


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut short"])
def test_a_damaged_file_is_named_and_left_out(tmp_path: Path, content: bytes) -> None:
    told: list[str] = []
    store = TokenStore(tmp_path, report=told.append)
    store.path(3).write_bytes(content)
    assert store.read(3) is None
    assert [text.partition(":")[0] for text in told] == [str(store.path(3))]


@given(place=st.integers(0, 10_000), value=st.integers(0, 255))
def test_no_changed_byte_breaks_a_reader(tmp_path_factory: pytest.TempPathFactory, place: int, value: int) -> None:
    store = TokenStore(tmp_path_factory.mktemp("signal"))
    store.write(tokens_of(1))
    content = bytearray(store.path(1).read_bytes())
    content[place % len(content)] = value
    store.path(1).write_bytes(bytes(content))
    store.read(1)


def test_a_run_directory_that_was_deleted_does_not_come_back(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="its directory is gone"):
        TokenStore(tmp_path / "run" / "episodes" / "signal").write(tokens_of(1))
    assert not (tmp_path / "run").exists()


def test_a_step_that_is_not_kept_is_none(tmp_path: Path) -> None:
    assert TokenStore(tmp_path).read(4) is None
