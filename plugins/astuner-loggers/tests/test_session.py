"""What is written of each attempt of a run that was cut off and resumed."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from astuner_loggers.writers import EpisodeText, Status, TrackedRun
from astuner_loggers.writers.session import Session


class Board:
    """A service, which outlives the writers of its attempts."""

    def __init__(self, forgets: bool) -> None:
        self.forgets = forgets
        self.values: list[tuple[str, int, float]] = []
        self.opened: list[TrackedRun] = []

    def steps(self, name: str) -> list[int]:
        return [step for found, step, _ in self.values if found == name]


class BoardWriter:
    def __init__(self, board: Board) -> None:
        self.board = board

    def open(self, run: TrackedRun) -> str:
        self.board.opened.append(run)
        return run.run_id or f"run {len(self.board.opened)}"

    def forget_after(self, step: int) -> bool:
        if self.board.forgets:
            self.board.values = [value for value in self.board.values if value[1] <= step]
        return self.board.forgets

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.board.values += [(name, step, value) for name, value in metrics.items()]

    def log_episodes(self, step: int, prefix: str, rewards: Sequence[float], shown: Sequence[EpisodeText]) -> None:
        self.board.values += [(f"{prefix}episodes", step, reward) for reward in rewards]

    def close(self, status: Status) -> None:
        pass


def opened(board: Board, place: Path, after: int | None, **changes: str) -> Session:
    session = Session(BoardWriter(board))
    names: dict[str, Any] = {"project": "p", "experiment": "e", "where": "here", **changes}
    session.carry_out(
        {"do": "open", "directory": str(place), "ledger": str(place), **names, "settings": {}, "parameters": {}, "after": after}
    )
    return session


def play(session: Session, first: int, last: int, value: float) -> None:
    """Report as a run does: a validation before the first step and after every second one."""
    for step in range(first, last + 1):
        if step:
            session.carry_out({"do": "log", "step": step, "metrics": {"reward/mean": value}})
            session.carry_out({"do": "log_episodes", "step": step, "prefix": "", "rewards": [value], "shown": []})
        if step % 2 == 0:
            session.carry_out({"do": "log", "step": step, "metrics": {"val/reward/mean": value}})


def test_a_resumed_run_keeps_its_id(tmp_path: Path) -> None:
    board = Board(forgets=False)
    play(opened(board, tmp_path, None), 0, 3, 0.0)
    opened(board, tmp_path, 2)
    assert [run.run_id for run in board.opened] == [None, "run 1"]


def test_a_run_that_is_not_resumed_begins_another_in_the_same_directory(tmp_path: Path) -> None:
    board = Board(forgets=False)
    for _ in range(2):
        play(opened(board, tmp_path, None), 0, 1, 0.0)
    assert [run.run_id for run in board.opened] == [None, None]
    assert board.steps("reward/mean") == [1, 1]


def test_a_run_that_goes_on_elsewhere_begins_another_there(tmp_path: Path) -> None:
    board = Board(forgets=False)
    play(opened(board, tmp_path, None), 0, 3, 0.0)
    play(opened(board, tmp_path, 1, where="online"), 2, 3, 0.0)
    assert [run.run_id for run in board.opened] == [None, None]
    assert board.steps("reward/mean") == [1, 2, 3, 2, 3]


def test_rows_of_a_resumed_run_are_numbered_on(tmp_path: Path) -> None:
    board = Board(forgets=False)
    play(opened(board, tmp_path, None), 1, 1, 0.0)
    opened(board, tmp_path, -1)
    # Two were noted, and a third may have been written when the run was cut off.
    assert board.opened[1].rows == 3


ATTEMPTS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=5)
"""How many steps each further attempt goes back, and how many it plays."""


@given(attempts=ATTEMPTS, forgets=st.booleans())
def test_no_step_is_written_twice_and_none_is_missing(attempts: list[tuple[int, int]], forgets: bool) -> None:
    board, reached = Board(forgets), 3
    with tempfile.TemporaryDirectory() as place:
        play(opened(board, Path(place), None), 0, reached, 0.0)
        for number, (back, steps) in enumerate(attempts, 1):
            checkpoint = reached - back if reached - back > 0 else -1
            last = max(checkpoint, 0) + steps
            play(opened(board, Path(place), checkpoint), checkpoint + 1, last, float(number))
            reached = max(last, 0) if forgets else max(reached, last)
    assert set(Counter((name, step) for name, step, _ in board.values).values()) == {1}
    assert board.steps("reward/mean") == list(range(1, reached + 1))
    assert {run.run_id for run in board.opened[1:]} == {"run 1"}
