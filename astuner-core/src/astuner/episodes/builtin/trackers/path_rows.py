"""Rows along the paths of the token tree: what is trained in each, before it is a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from attrs import frozen

from astuner.contract.protocols import EpisodeIdentity
from astuner.contract.schema import Call, Sample
from astuner.contract.token_streams import Stretch, join_ids

AnswerFilter = Callable[[Stretch, Sequence[Stretch]], bool]
"""Whether an answer is trained in a path that holds it."""


@frozen(kw_only=True, eq=False)
class Span:
    """Sampled ids of one call that a row trains."""

    call: Call
    first: int
    last: int
    """One past the last of them; both are positions in the call's output."""
    place: int
    """Position of the first of them in the row."""

    @property
    def end(self) -> int:
        """Position in the row after them."""
        return self.place + self.last - self.first


@frozen(kw_only=True, eq=False)
class Row:
    """One path of the tree and what is trained on it."""

    path: Sequence[Stretch]
    spans: tuple[Span, ...]
    """In the order of the row; at least one."""

    @property
    def agent(self) -> str:
        """Whose conversation it is."""
        return self.path[-1].call.agent


def accept_every_answer(part: Stretch, path: Sequence[Stretch]) -> bool:
    """Train every answer of a path."""
    return True


def take_row(path: Sequence[Stretch], done: dict[int, int], wanted: AnswerFilter = accept_every_answer) -> Row | None:
    """Take the wanted tokens of a path that are not trained yet, and count them in `done` (sampled tokens by call).

    None if there are none.
    """
    spans = []
    for part in path:
        first = done.get(part.call.index, 0)
        if part.call.untrained is None and part.sampled > first and wanted(part, path):
            spans.append(Span(call=part.call, first=first, last=part.sampled, place=part.start + part.fed + first))
            done[part.call.index] = part.sampled
    return Row(path=path, spans=tuple(spans)) if spans else None


def make_sample(row: Row, identity: EpisodeIdentity) -> Sample:
    """Make the sample of a row. It ends with its last trained token: later tokens have no effect."""
    end = max(span.end for span in row.spans)
    ids = join_ids(row.path)[:end]
    mask = np.zeros(end, bool)
    logprobs = np.zeros(end, np.float32)
    for span in row.spans:
        mask[span.place : span.end] = True
        logprobs[span.place : span.end] = span.call.logprobs[span.first : span.last]
    return Sample(
        episode_id=identity.episode_id,
        task_id=identity.task_id,
        repeat=identity.repeat,
        agent=row.agent,
        ids=ids,
        mask=mask,
        logprobs=logprobs,
        calls=tuple(dict.fromkeys(span.call.index for span in row.spans)),
        target_tag=row.spans[0].call.target_tag,
    )


def count_untrained(calls: Iterable[Call], done: Mapping[int, int], reason: str | None = None) -> dict[str, int]:
    """Count the sampled tokens of untrained calls by reason, and under `reason` all others that are not `done`.

    Without a `reason` the others are not counted, so that a missing token is noticed.
    """
    untrained: Counter[str] = Counter()
    for call in calls:
        why = call.untrained or reason
        missing = len(call.output_ids) - done.get(call.index, 0)
        if why is not None and missing:
            untrained[why] += missing
    return dict(untrained)
