"""Which rows make one optimizer step, and what share of its loss a token has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal, Protocol, TypeVar

from astuner.contract.schema import Sample

Aggregation = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"]
"""How the losses of tokens become one number, in verl's names."""


class Row(Protocol):
    """One sample, and the group that it belongs to."""

    @property
    def sample(self) -> Sample:
        """The tokens."""

    @property
    def group(self) -> str:
        """Identity of the task group."""


AnyRow = TypeVar("AnyRow", bound=Row)


def cut_mini_batches(rows: Sequence[AnyRow], count: int) -> list[list[AnyRow]]:
    """Cut the rows, in their order, into at most `count` parts of whole groups; of whole episodes when there are fewer groups.

    Rows are never the unit: an episode of twenty rows is handled like one of a single row.
    """
    keys: list[Hashable] = [row.group for row in rows]
    if len(set(keys)) < count:
        keys = [(row.group, row.sample.episode_id) for row in rows]
    ranks = {key: rank for rank, key in enumerate(dict.fromkeys(keys))}
    parts: list[list[AnyRow]] = [[] for _ in range(min(count, len(ranks)))]
    for row, key in zip(rows, keys, strict=True):
        parts[ranks[key] * len(parts) // len(ranks)].append(row)
    return parts


def compute_token_shares(rows: Sequence[Row], aggregation: Aggregation, max_response_length: int) -> list[float]:
    """Return, for each row of a mini-batch, the factor of each of its tokens' losses; their weighted sum is the loss.

    The denominators are those of the whole mini-batch, so that neither micro-batches nor rows that are left out change them.
    Means over sequences count those without a trained token too.
    `max_response_length` is the constant that `seq-mean-token-sum-norm` (Dr.GRPO, arXiv 2503.20783) divides by.
    """
    tokens: Counter[Hashable] = Counter()
    for row in rows:
        tokens[_identify_sequence(row)] += row.sample.trained
    sequences = max(1, len(tokens))
    match aggregation:
        case "token-mean":
            return [1 / max(1, tokens.total())] * len(rows)
        case "seq-mean-token-mean":
            return [1 / (sequences * max(1, tokens[_identify_sequence(row)])) for row in rows]
        case "seq-mean-token-sum":
            return [1 / sequences] * len(rows)
        case "seq-mean-token-sum-norm":
            return [1 / (sequences * max_response_length)] * len(rows)


def _identify_sequence(row: Row) -> Hashable:
    return row.group, row.sample.episode_id, row.sample.agent
