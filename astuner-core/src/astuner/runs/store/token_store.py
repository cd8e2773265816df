"""What was trained, token by token: one file of a run for each step, `episodes/signal/step_N.npz`.

Values are in half precision. One that is the same for all tokens of a stretch, such as the advantage of most estimators, is
stored once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import asdict, fields, frozen

from astuner.runs.store.atomic import explain_os_errors, write_bytes
from astuner.shared.private_files import DIRECTORY_MODE, open_stored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from astuner.contract.schema import Call

    Half = NDArray[np.float16]
    Numbers = NDArray[np.int32]
    Flags = NDArray[np.uint8]

LARGEST = float(np.finfo(np.float16).max)
NAMES = "names"
"""The array with the ids of the episodes and the names of the agents, as JSON."""


@frozen(kw_only=True, eq=False)
class TokenColumns:
    """The values of n tokens, one array [n] each; NaN where a trainer does not have a value, or a token was not trained.

    A token that a step trains several times has the values of the first time; `clips` has those of all.
    """

    logprobs: Half
    """In the trainer, when the token was trained."""
    entropies: Half
    """Of the distribution that the token was sampled from, in nats."""
    reference_logprobs: Half
    """Of the reference model."""
    ratios: Half
    """π/π_old: the probability over that with the weights that the step began with."""
    advantages: Half
    """As the estimator gave them."""
    rl: Half
    """Weight of the policy gradient: the advantage times the importance weight of trainer against sampler, if there is one.
    Weights come before a token's share in the batch."""
    ce: Half
    """Weight of the likelihood."""
    ref_kl: Half
    """Weight of the divergence from the reference."""
    clips: Flags
    """1 clipped at the lower bound, 2 at the upper one, 3 by the dual clip, 0 not at all."""


@frozen(kw_only=True, eq=False)
class Stretches:
    """Neighbouring trained tokens of one call; arrays [s]. The tokens of all stretches, in their order, are those of the step."""

    episode: Numbers
    """Index into `TrainedTokens.episodes`."""
    agent: Numbers
    """Index into `TrainedTokens.agents`."""
    call: Numbers
    """Index of the call in its episode; -1 if no call of the episode has sampled the tokens."""
    start: Numbers
    """Position of the first token in the call's output, or in its sample if there is no call."""
    count: Numbers


@frozen(kw_only=True, eq=False, slots=False)
class TrainedTokens:
    """The trained tokens of a step."""

    step: int
    episodes: tuple[str, ...]
    """Their ids."""
    agents: tuple[str, ...]
    stretches: Stretches
    columns: TokenColumns
    """[trained tokens]"""

    def of(self, episode_id: str, call: Call) -> TokenColumns | None:
        """Return the values of a call's sampled tokens [output_ids], NaN where one was not trained; None if none of them was."""
        places = self._by_call.get((episode_id, call.index), ())
        if not places:
            return None
        size = len(call.output_ids)
        found = {
            name: np.full(size, 0 if name == "clips" else np.nan, values.dtype) for name, values in _list_columns(self.columns)
        }
        for place in places:
            first, start = int(self._firsts[place]), int(self.stretches.start[place])
            count = min(int(self.stretches.count[place]), size - start)
            for name, values in _list_columns(self.columns):
                found[name][start : start + count] = values[first : first + count]
        return TokenColumns(**found)

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        return _find_firsts(self.stretches.count)

    @cached_property
    def _by_call(self) -> dict[tuple[str, int], list[int]]:
        found: dict[tuple[str, int], list[int]] = {}
        for place, (episode, call) in enumerate(zip(self.stretches.episode.tolist(), self.stretches.call.tolist(), strict=True)):
            found.setdefault((self.episodes[episode], call), []).append(place)
        return found


class TokenStore:
    """The files of a run's trained tokens."""

    def __init__(
        self, directory: Path, *, most_bytes: float | None = None, report: Callable[[str], object] | None = None
    ) -> None:
        """Name the directory (`RunDirectory.trained_tokens`); nothing is touched before `write` or `truncate_after`.

        Beyond `most_bytes` the oldest steps are removed. `report` gets messages about damaged files.
        """
        self._directory, self._most, self._report = directory, most_bytes, report

    def list_steps(self) -> list[int]:
        """Return the steps that have a file, ascending."""
        found = (path.stem.removeprefix("step_") for path in self._directory.glob("step_*.npz"))
        return sorted(int(name) for name in found if name.isdigit())

    def path(self, step: int) -> Path:
        """Return the file of a step."""
        return self._directory / f"step_{step}.npz"

    def read(self, step: int) -> TrainedTokens | None:
        """Return the trained tokens of a step; None if they are not kept, or the file is damaged."""
        path = self.path(step)
        try:
            with open_stored(path) as file:
                return _decode(file.read(), step)
        except FileNotFoundError:
            return None
        except Exception:  # noqa: BLE001 - a damaged archive makes zipfile and numpy raise almost anything
            if self._report is not None:
                self._report(f"{path}: damaged, and left out; nothing needs to be done, since no step depends on it")
            return None

    def write(self, tokens: TrainedTokens) -> None:
        """Store a step; the oldest ones make room for it."""
        content = _encode(tokens)
        with explain_os_errors(self._directory):
            # Not all parents: a run directory that was deleted does not come back with one file in it.
            for folder in (self._directory.parent, self._directory):
                folder.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            self._make_room(len(content))
        write_bytes(self.path(tokens.step), content)

    def truncate_after(self, step: int) -> None:
        """Delete the files of later steps, for a run that resumes from the checkpoint of `step`."""
        with explain_os_errors(self._directory):
            for leftover in self._directory.glob("*.part"):
                leftover.unlink(missing_ok=True)
            for later in self.list_steps():
                if later > step:
                    self.path(later).unlink(missing_ok=True)

    def _make_room(self, size: int) -> None:
        """Remove the oldest steps until one of `size` bytes fits."""
        if self._most is None:
            return
        sizes = {step: self.path(step).stat().st_size for step in self.list_steps()}
        total = sum(sizes.values()) + size
        for step, length in sizes.items():
            if total <= self._most:
                return
            self.path(step).unlink(missing_ok=True)
            total -= length


def round_to_half(values: NDArray[Any]) -> Half:
    """Return values in half precision; one beyond its range becomes the largest or the smallest number, never infinite."""
    rounded: Half = np.clip(values, -LARGEST, LARGEST).astype(np.float16)
    return rounded


def _list_columns(columns: TokenColumns) -> list[tuple[str, NDArray[Any]]]:
    return [(one.name, getattr(columns, one.name)) for one in fields(TokenColumns)]


def _find_firsts(counts: Numbers) -> NDArray[np.int64]:
    """Return the index of the first token of each stretch."""
    firsts: NDArray[np.int64] = np.cumsum(counts, dtype=np.int64) - counts
    return firsts


def _encode(tokens: TrainedTokens) -> bytes:
    stretches = tokens.stretches
    firsts = _find_firsts(stretches.count)
    names = json.dumps({"episodes": tokens.episodes, "agents": tokens.agents}).encode()
    arrays: dict[str, NDArray[Any]] = {NAMES: np.frombuffer(names, np.uint8), **asdict(stretches, recurse=False)}
    for name, values in _list_columns(tokens.columns):
        bits = values.view(np.uint16) if values.dtype == np.float16 else values
        constant = np.array_equal(bits, np.repeat(bits[firsts], stretches.count))
        arrays[name] = values[firsts] if constant else values
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _decode(content: bytes, step: int) -> TrainedTokens:
    with np.load(BytesIO(content), allow_pickle=False) as arrays:
        names = json.loads(arrays[NAMES].tobytes())
        stretches = Stretches(**{one.name: arrays[one.name] for one in fields(Stretches)})
        total = int(stretches.count.sum())
        columns = {}
        for one in fields(TokenColumns):
            values = arrays[one.name]
            columns[one.name] = values if len(values) == total else np.repeat(values, stretches.count)
    return TrainedTokens(
        step=step,
        episodes=tuple(names["episodes"]),
        agents=tuple(names["agents"]),
        stretches=stretches,
        columns=TokenColumns(**columns),
    )
