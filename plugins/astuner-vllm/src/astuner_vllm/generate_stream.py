"""Reads and checks the stream of `/inference/v1/generate`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from attrs import field, frozen

from astuner.contract.schema import FinishReason
from astuner_vllm.failures import BadAnswer, Refused

DONE = b"[DONE]"
"""The end of the stream."""
NO_LOGPROB = -9999.0
"""vLLM's value for a log-probability that is missing, NaN, or minus infinity."""
LONGEST_EVENT = 16 * 2**20
"""In bytes."""
ROUNDING = 1e-3
"""A log-probability may exceed 0 by this much; it then counts as 0."""


@frozen(kw_only=True)
class Part:
    """Some tokens of an answer."""

    ids: list[int]
    logprobs: list[float]
    tops: list[Mapping[int, float]]
    """Per id the most likely ids; empty when none were asked for."""
    finish: FinishReason | None = None
    spans: Sequence[tuple[str, int]] = field(factory=tuple)
    """On the last part, the label of the weights from each position on."""


class EventStream:
    """Cuts a stream of bytes into the data of its server-sent events."""

    def __init__(self, where: str) -> None:
        """`where` names the server for messages."""
        self._where = where
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the data of complete events; raises `BadAnswer` if one does not end."""
        *events, self._rest = (self._rest + data).replace(b"\r\n", b"\n").split(b"\n\n")
        if len(self._rest) > LONGEST_EVENT:
            raise BadAnswer(f"{self._where} sent {LONGEST_EVENT} bytes without the end of an event")
        return [event[5:].strip() for event in events if event.startswith(b"data:")]


def read_part(data: bytes, *, tops: int, vocab_size: int | None, where: str) -> Part:
    """Return the tokens of one event; raises `BadAnswer`, or `Refused` for an error that the server reports.

    `tops` is how many of the most likely tokens were asked for, `where` the server for messages.
    """
    try:
        said = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"{where} sent invalid JSON: {data[:200]!r}") from error
    if isinstance(said, dict) and "error" in said:
        raise Refused(f"{where}: {read_reason(said)}", _read_status(said["error"]))
    try:
        (choice,) = said["choices"]
        # An aborted answer ends with neither ids nor log-probabilities.
        ids, finish = choice["token_ids"] or [], choice["finish_reason"]
        content = (choice["logprobs"] or {"content": []})["content"]
        spans = tuple((str(span["version"]), int(span["start"])) for span in choice["weight_versions"] or ())
    except (KeyError, TypeError, ValueError) as error:
        raise BadAnswer(f"{where} sent something else than tokens ({error!r}): {data[:200]!r}") from error
    if not isinstance(ids, list) or not isinstance(content, list) or len(content) != len(ids):
        raise BadAnswer(f"{where} sent {_count(ids)} ids with {_count(content)} log-probabilities")
    for number in ids:
        if type(number) is not int or number < 0 or (vocab_size is not None and number >= vocab_size):
            raise BadAnswer(f"{where} sent the id {number!r}, which is not in the vocabulary of {vocab_size or 'ids from 0'}")
    if finish not in (None, "stop", "length", "abort"):
        raise BadAnswer(f"{where} ended an answer with '{finish}'")
    try:
        return Part(
            ids=ids,
            logprobs=[_logprob(number, entry, where) for number, entry in zip(ids, content, strict=True)],
            tops=[_read_top_logprobs(entry, tops) for entry in content] if tops else [],
            finish=cast("FinishReason | None", finish),
            spans=spans,
        )
    except (KeyError, TypeError) as error:
        raise BadAnswer(f"{where} sent log-probabilities that cannot be read ({error!r}): {data[:200]!r}") from error


def read_reason(said: Any) -> str:
    """Return the message of a vLLM error, in either of its two forms."""
    error = said.get("error", said.get("detail", said)) if isinstance(said, dict) else said
    return str(error.get("message", error) if isinstance(error, dict) else error)


def _read_status(error: Any) -> int:
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) else 500


def _logprob(number: int, entry: Mapping[str, Any], where: str) -> float:
    if entry["token_id"] != number:
        raise BadAnswer(f"{where} sent the log-probability of {entry['token_id']!r} for the id {number}")
    value = entry["logprob"]
    if not isinstance(value, float | int) or not math.isfinite(value) or value <= NO_LOGPROB or value > ROUNDING:
        raise BadAnswer(f"{where} sent {value!r} as the log-probability of the sampled id {number}")
    return min(float(value), 0.0)


def _read_top_logprobs(entry: Mapping[str, Any], count: int) -> Mapping[int, float]:
    """Return the `count` most likely ids, without impossible ones."""
    ranked = sorted((top["rank"], top["token_id"], top["logprob"]) for top in entry["top_logprobs"] if top["rank"])
    return {number: min(value, 0.0) for rank, number, value in ranked if rank <= count and value > NO_LOGPROB}


def _count(items: Any) -> str:
    return str(len(items)) if isinstance(items, list) else f"{items!r:.40} as"
