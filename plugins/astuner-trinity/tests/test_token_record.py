"""What the workers leave of a step becomes one record, and what is lost costs no step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from made_up_groups import groups_of

from astuner.contract.errors import RunFailed
from astuner.contract.schema import Group
from astuner.episodes.judging.advantages import WeightedSample, compute_advantages
from astuner.episodes.judging.estimators import Grpo
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.token_store import TokenStore
from astuner.runs.training import MismatchWatch
from astuner.runs.training.token_recorder import TokenRecorder
from astuner.runs.training.token_values import STACKED
from astuner.settings.config.trainer import TokenRecord as Options
from astuner_trinity.token_parts import RowOwner, take_step, write_owners, write_part
from astuner_trinity.token_record import TokenRecord, join_rows, number_rows

STEP = 7
"""Of a stage, as the workers count."""
NAMED = 20 + STEP
"""The same of the run."""
GROUPS = groups_of(NAMED, 100, (2, 3))
ROWS = compute_advantages(GROUPS, Grpo())
OWNERS = list(number_rows(ROWS))
WATCH = MismatchWatch(warn=print, sampled_by="it")


def stack_of(numbers: list[int], update: int = 0) -> Any:
    """Values that name the row, the place of the token in it, and the update."""
    found = [np.full((len(STACKED), OWNERS[number].tokens), float(number)) for number in numbers]
    for one in found:
        one[1] = np.arange(one.shape[1])
        one[2] = update
        one[-1] = update + 1
    return np.concatenate(found, axis=1).astype(np.float16)


def leave(directory: Path, worker: int, numbers: list[int], update: int = 0) -> None:
    lengths = [OWNERS[number].tokens for number in numbers]
    write_part(directory, STEP, worker, numbers, lengths, stack_of(numbers, update))


def join(directory: Path) -> Any:
    found = take_step(directory, STEP)
    assert found is not None
    return join_rows(found[1], number_rows(ROWS), len(ROWS))


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    write_owners(tmp_path, STEP, OWNERS)
    return tmp_path


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[TokenRecord, TokenStore, list[str]]:
    said: list[str] = []
    directory = RunDirectory(tmp_path / "run")
    directory.path.mkdir()
    recorder = TokenRecorder.open(directory, Options())
    assert recorder is not None
    return TokenRecord(recorder=recorder, warn=said.append, watch=WATCH), TokenStore(directory.trained_tokens), said


@given(order=st.permutations(range(len(OWNERS))), workers=st.integers(1, 4))
def test_rows_come_in_the_order_of_the_step_however_workers_share_them(
    order: list[int], workers: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("parts")
    write_owners(directory, STEP, OWNERS)
    for worker in range(workers):
        leave(directory, worker, order[worker::workers])
    found = join(directory)
    lengths = [owner.tokens for owner in OWNERS]
    assert found.lengths.tolist() == lengths
    assert found.logprobs.tolist() == np.repeat(np.arange(len(OWNERS)), lengths).tolist()
    assert found.entropies.tolist() == [place for length in lengths for place in range(length)]
    assert list(directory.iterdir()) == []


def test_each_row_is_known_by_its_episode_and_its_place_there() -> None:
    assert len(set(OWNERS)) == len(ROWS)
    assert [owner.episode for owner in OWNERS] == [row.sample.episode_id for row in ROWS]
    assert {owner.sample for owner in OWNERS} == {0, 1}


def test_rows_of_the_explorer_name_the_owners_that_the_driver_finds() -> None:
    pytest.importorskip("trinity")
    from astuner_trinity.explorer.experiences import build_experiences
    from astuner_trinity.rows import EPISODE, SAMPLE

    rows = [row for group in GROUPS for row in build_experiences(group, Grpo(), by_agent=True)]
    found = [RowOwner(episode=row.info[EPISODE], sample=row.info[SAMPLE], tokens=int(row.action_mask.sum())) for row in rows]
    assert found == OWNERS


def test_rows_of_a_later_stage_are_as_old_as_the_trainer_of_that_stage_counts() -> None:
    pytest.importorskip("trinity")
    from astuner_trinity.explorer.experiences import build_experiences
    from astuner_trinity.rows import EXPLORED, VERSION

    # The weights that sampled them are those of the step before.
    rows = build_experiences(GROUPS[0], Grpo(), by_agent=True, steps_before=NAMED - STEP)
    assert {(row.info[EXPLORED], row.info[VERSION]) for row in rows} == {(STEP, STEP - 1)}


def test_samples_that_train_nothing_are_not_counted_as_the_explorer_does_not_count_them() -> None:
    nothing = evolve(ROWS[0], sample=evolve(ROWS[0].sample, mask=np.zeros_like(ROWS[0].sample.mask)))
    found = number_rows([nothing, ROWS[0]])
    assert found == {RowOwner(episode=ROWS[0].sample.episode_id, sample=0, tokens=ROWS[0].sample.trained): 1}


def test_of_several_updates_the_first_counts(parts: Path) -> None:
    numbers = [0, 1]
    lengths = [OWNERS[number].tokens for number in numbers]
    stack = np.concatenate((stack_of(numbers, update=0), stack_of(numbers, update=1)), axis=1)
    write_part(parts, STEP, 0, numbers * 2, lengths * 2, stack)
    found = join(parts)
    assert found.lengths.tolist()[:2] == lengths
    assert set(found.reference_logprobs.tolist()) == {0}
    # Clipped as in both.
    assert set(found.clips.tolist()) == {1 | 2}


def test_the_record_has_the_tokens_where_their_samples_have_them(
    parts: Path, recorded: tuple[TokenRecord, TokenStore, list[str]]
) -> None:
    record, store, said = recorded
    leave(parts, 0, list(range(len(OWNERS))))
    found = record.take(parts, STEP, GROUPS, ROWS, named=NAMED, is_stale=False)
    assert said == []
    assert found["mismatch/sequences"] == len(OWNERS)
    assert found["mismatch/abs_max"] == pytest.approx(
        max(np.abs(number - row.sample.logprobs[row.sample.mask]).max() for number, row in enumerate(ROWS)), abs=1e-3
    )
    assert store.list_steps() == [NAMED]
    tokens = store.read(NAMED)
    assert tokens is not None
    assert tokens.stretches.count.sum() == sum(row.sample.trained for row in ROWS)
    assert tokens.columns.advantages.tolist() == pytest.approx(np.concatenate([row.spread() for row in ROWS]), rel=1e-3)


def leave_all_but_one(parts: Path) -> None:
    leave(parts, 0, list(range(1, len(OWNERS))))


def damage_a_part(parts: Path) -> None:
    leave_all_but_one(parts)
    leave(parts, 1, [0])
    file = parts / f"step_{STEP}.worker_1.npz"
    file.write_bytes(file.read_bytes()[:-40])


def name_a_row_that_the_step_does_not_have(parts: Path) -> None:
    leave_all_but_one(parts)
    write_part(
        parts, STEP, 1, [0, len(OWNERS)], [OWNERS[0].tokens, 1], np.zeros((len(STACKED), OWNERS[0].tokens + 1), np.float16)
    )


def give_a_row_too_few_values(parts: Path) -> None:
    leave_all_but_one(parts)
    write_part(parts, STEP, 1, [0], [1], np.zeros((len(STACKED), 1), np.float16))


@pytest.mark.parametrize(
    "left", [leave_all_but_one, damage_a_part, name_a_row_that_the_step_does_not_have, give_a_row_too_few_values]
)
def test_what_is_missing_or_damaged_is_reported_and_the_rest_is_recorded(
    left: Any, parts: Path, recorded: tuple[TokenRecord, TokenStore, list[str]]
) -> None:
    record, store, said = recorded
    left(parts)
    record.take(parts, STEP, GROUPS, ROWS, named=NAMED, is_stale=False)
    total = sum(owner.tokens for owner in OWNERS)
    assert [text.partition(":")[0] for text in said] == [
        f"{OWNERS[0].tokens} of the {total} trained tokens of step {NAMED} are not recorded"
    ]
    tokens = store.read(NAMED)
    assert tokens is not None
    assert len(tokens.columns.logprobs) == total - OWNERS[0].tokens


def test_a_step_without_a_list_of_its_rows_is_reported(
    tmp_path: Path, recorded: tuple[TokenRecord, TokenStore, list[str]]
) -> None:
    record, store, said = recorded
    leave(tmp_path, 0, [0])
    record.take(tmp_path, STEP, GROUPS, ROWS, named=NAMED, is_stale=False)
    assert len(said) == 1
    assert "left no list of its rows" in said[0]
    assert store.list_steps() == []
    assert list(tmp_path.glob("step_*")) == []


def test_a_step_that_trained_nothing_has_no_record_and_lacks_none(
    tmp_path: Path, recorded: tuple[TokenRecord, TokenStore, list[str]]
) -> None:
    record, store, said = recorded
    write_owners(tmp_path, STEP, [])
    record.take(tmp_path, STEP, GROUPS, ROWS, named=NAMED, is_stale=False)
    assert (said, store.list_steps()) == ([], [])


def test_rows_of_other_steps_are_left_out_and_reported_once(
    parts: Path, recorded: tuple[TokenRecord, TokenStore, list[str]]
) -> None:
    """As a replay buffer gives them: their episodes are not in the step."""
    record, store, said = recorded
    own = [row for row in ROWS if row.group == GROUPS[0].key]
    for _ in range(2):
        write_owners(parts, STEP, OWNERS)
        leave(parts, 0, list(range(len(OWNERS))))
        record.take(parts, STEP, GROUPS[:1], own, named=NAMED, is_stale=False)
    assert len(said) == 1
    assert "rows of other steps" in said[0]
    tokens = store.read(NAMED)
    assert tokens is not None
    assert len(tokens.columns.logprobs) == sum(row.sample.trained for row in own)


class FullDisk:
    """A recorder that cannot write."""

    def record(self, step: int, groups: list[Group], rows: list[WeightedSample], values: Any) -> None:
        raise RunFailed("/run: no space left on device")


def test_a_record_that_cannot_be_written_ends_no_run(parts: Path) -> None:
    said: list[str] = []
    recorder: Any = FullDisk()
    leave(parts, 0, [0])
    record = TokenRecord(recorder=recorder, warn=said.append, watch=WATCH)
    assert record.take(parts, STEP, GROUPS, ROWS, named=NAMED, is_stale=False) == {}
    assert said[-1] == f"the trained tokens of step {NAMED} are not recorded: RunFailed: /run: no space left on device"
