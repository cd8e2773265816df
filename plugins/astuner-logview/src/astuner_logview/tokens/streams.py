"""A path of tokens with everything that is known of each token, as arrays."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from astuner.contract.schema import Call, Episode
from astuner.contract.token_streams import Stretch, join_ids
from astuner.episodes.transcript.trained_tokens import mark_trained_tokens
from astuner_logview.tokens.measures import MEASURES
from astuner_logview.tokens.texts import TokenTexts
from astuner_logview.trainer_values import CallValues

Values = NDArray[np.float32]


@frozen(kw_only=True)
class Segment:
    """A part of a path that one call has added: its prompt, or what it sampled."""

    start: int
    end: int
    call: Call
    sampled: bool
    trained: int
    reason: str | None
    """Why tokens of it are not trained, if that is so."""


@frozen(kw_only=True, eq=False)
class TokenStream:
    """A path, from a root to a leaf; all arrays have its length."""

    leaf: int
    """The call at its end."""
    ids: NDArray[np.int32]
    sampled: NDArray[np.bool_]
    trained: NDArray[np.bool_]
    calls: NDArray[np.int32]
    segments: Sequence[Segment]
    values: Mapping[str, Values]
    """NaN where a token has no such number; measures that nothing is known of are missing."""
    clipped: NDArray[np.uint8] | None
    texts: Sequence[str] | None

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.ids)


def build_stream(
    episode: Episode,
    parts: Sequence[Stretch],
    texts: TokenTexts | None,
    recorded: Mapping[int, CallValues],
    advantages: Mapping[str, float],
) -> TokenStream:
    """Put a path together; `recorded` are the trainer's values by call, `advantages` those of the episode by agent."""
    ids = join_ids(parts)
    size = len(ids)
    marked = mark_trained_tokens(episode)
    sampled, trained, calls = np.zeros(size, bool), np.zeros(size, bool), np.zeros(size, np.int32)
    values: dict[str, Values] = {"logprob": np.full(size, np.nan, np.float32)}
    clipped: NDArray[np.uint8] | None = None
    segments = []
    for part in parts:
        call, middle = part.call, part.start + part.fed
        end = middle + part.sampled
        calls[part.start : end] = call.index
        sampled[middle:end] = True
        own = marked[call.index][: part.sampled]
        trained[middle:end] = own
        values["logprob"][middle:end] = call.logprobs[: part.sampled]
        if call.agent in advantages and own.any():
            place = values.setdefault("advantage", np.full(size, np.nan, np.float32))
            place[middle:end][own] = advantages[call.agent]
        if (record := recorded.get(call.index)) is not None:
            for name, numbers in record.values.items():
                place = values.setdefault(name, np.full(size, np.nan, np.float32))
                known = ~np.isnan(numbers[: part.sampled])
                place[middle:end][known] = numbers[: part.sampled][known]
            if record.clipped is not None:
                clipped = np.zeros(size, np.uint8) if clipped is None else clipped
                clipped[middle:end] = record.clipped[: part.sampled]
        if part.fed:
            segments.append(Segment(start=part.start, end=middle, call=call, sampled=False, trained=0, reason=None))
        if part.sampled:
            count = int(own.sum())
            reason = find_reason(episode, call) if count < part.sampled else None
            segments.append(Segment(start=middle, end=end, call=call, sampled=True, trained=count, reason=reason))
    if "trainer_logprob" in values:
        values["mismatch"] = values["trainer_logprob"] - values["logprob"]
    if "rl" in values and "ratio" in values:
        values["loss"] = compute_loss(values)
    if clipped is not None:
        values["clipped"] = np.where(clipped > 0, clipped, np.nan).astype(np.float32)
    return TokenStream(
        leaf=parts[-1].call.index,
        ids=ids,
        sampled=sampled,
        trained=trained,
        calls=calls,
        segments=segments,
        values={name: values[name] for name in MEASURES if name in values},
        clipped=clipped,
        texts=None if texts is None else texts.split(ids.tolist()),
    )


def compute_loss(values: Mapping[str, Values]) -> Values:
    """Return each token's part of the loss by its recorded weights, before clipping and before its share in the batch."""
    loss = -values["rl"] * values["ratio"]
    if "ce" in values:
        loss = loss - values["ce"] * values["trainer_logprob"]
    if "ref_kl" in values and "ref_logprob" in values:
        log_ratio = values["ref_logprob"] - values["trainer_logprob"]
        loss = loss + np.where(np.isfinite(log_ratio), values["ref_kl"] * (np.expm1(log_ratio) - log_ratio), 0)
    found: Values = loss.astype(np.float32)
    return found


def find_reason(episode: Episode, call: Call) -> str:
    """Return why tokens of a call are not trained."""
    if call.untrained is not None:
        return call.untrained
    if not episode.completed and not episode.samples:
        return "failed"
    of_calls = {other.untrained for other in episode.calls}
    others = [reason for reason in episode.untrained if reason not in of_calls]
    return others[0] if len(others) == 1 else " or ".join(others) or "in no sample"


@define(eq=False)
class StreamCache:
    """Keeps the paths that were looked at last. Threads may share it."""

    most: int = 3
    _found: OrderedDict[Any, tuple[TokenStream, dict[str, Any]]] = field(factory=OrderedDict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def get(self, key: Any, make: Callable[[], tuple[TokenStream, dict[str, Any]]]) -> tuple[TokenStream, dict[str, Any]]:
        """Return a path and what is said of its record; if it was not kept, it is made, and kept in place of the oldest."""
        # A page asks for a path and for its first tokens at once: one of them makes it, the other waits.
        with self._lock:
            if key not in self._found:
                self._found[key] = make()
                while len(self._found) > self.most:
                    self._found.popitem(last=False)
            self._found.move_to_end(key)
            return self._found[key]
