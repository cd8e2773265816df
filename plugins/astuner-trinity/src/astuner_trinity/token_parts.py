"""What the trainer computed of the tokens that it trained, on its way to the driver: a file per worker and step.

The process that reads a step's rows writes whose they are, each worker what it computed of its own. All of it is for the record
alone: a file that cannot be written or read costs a part of the record, and no step.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import asdict, frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Stack = NDArray[np.float16]


@frozen(kw_only=True)
class RowOwner:
    """Whose tokens a row trains."""

    episode: str
    """The id of the episode."""
    sample: int
    """Position among the samples of the episode that train a token."""
    tokens: int
    """How many it trains."""


@frozen(kw_only=True, eq=False)
class RowValues:
    """What a pass computed of one row; there may be several of a row, in their order."""

    owner: RowOwner
    stack: Stack
    """[8, trained tokens] in the order of `astuner.runs.training.token_values.STACKED`."""


def write_owners(directory: Path, step: int, owners: Sequence[RowOwner]) -> None:
    """Write whose the rows of a step are, in the order of their numbers; raises `OSError`."""
    _replace(_name_owners(directory, step), json.dumps([asdict(owner) for owner in owners]).encode())


def write_part(directory: Path, step: int, worker: int, numbers: Sequence[int], lengths: Sequence[int], stack: Stack) -> None:
    """Write what a worker computed of the tokens of some rows, one row after the other; raises `OSError`.

    `numbers` and `lengths` are the rows' numbers and trained tokens, `stack` [8, sum of the lengths].
    """
    content = BytesIO()
    arrays: dict[str, Any] = {"numbers": np.asarray(numbers, np.int64), "lengths": np.asarray(lengths, np.int64), "stack": stack}
    np.savez(content, allow_pickle=False, **arrays)
    _replace(directory / f"step_{step}.worker_{worker}.npz", content.getvalue())


def take_step(directory: Path, step: int) -> tuple[list[RowOwner], list[RowValues]] | None:
    """Return whose the rows of a step are, and what came of them, and remove the files; None if the first is unknown.

    A part that cannot be read, or a row that does not fit its owner, is left out.
    """
    named = _name_owners(directory, step)
    parts = sorted(directory.glob(f"step_{step}.worker_*.npz"))
    owners = _read_owners(named)
    found = [] if owners is None else [values for part in parts for values in _read_part(part, owners)]
    for path in (named, *parts):
        path.unlink(missing_ok=True)
    return None if owners is None else (owners, found)


def _name_owners(directory: Path, step: int) -> Path:
    return directory / f"step_{step}.rows.json"


def _replace(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees all of it or nothing; it need not outlive the machine."""
    beside = path.with_name(path.name + ".part")
    beside.write_bytes(content)
    beside.replace(path)


def _read_owners(path: Path) -> list[RowOwner] | None:
    try:
        return [RowOwner(**facts) for facts in json.loads(path.read_bytes())]
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _read_part(path: Path, owners: Sequence[RowOwner]) -> list[RowValues]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            numbers, lengths, stack = stored["numbers"].tolist(), stored["lengths"], stored["stack"]
        ends = np.cumsum(lengths).tolist()
        found = [
            RowValues(owner=owners[number], stack=stack[:, end - length : end])
            for number, length, end in zip(numbers, lengths.tolist(), ends, strict=True)
        ]
    except Exception:  # noqa: BLE001  # a damaged archive makes zipfile and numpy raise almost anything
        return []
    return [values for values in found if values.stack.shape[1] == values.owner.tokens]
