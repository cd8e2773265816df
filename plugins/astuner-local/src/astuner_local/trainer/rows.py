"""The trainer's input: samples with the advantages that core computed."""

from __future__ import annotations

import math

from attrs import field, frozen

from astuner.contract.schema import Sample
from astuner.episodes.judging.advantages import WeightedSample


def _check_finite(instance: object, attribute: object, value: float) -> None:
    if not math.isfinite(value):
        raise ValueError(f"advantage: {value} is not finite; an episode without a reward has no advantage and gives no row")


def _has_prefix(instance: object, attribute: object, value: Sample) -> None:
    if len(value.ids) and value.mask[0]:
        raise ValueError(f"sample of episode {value.episode_id!r}: its first id is marked as trained, but nothing precedes it")


@frozen(kw_only=True, eq=False)
class TrainRow(WeightedSample):
    """One sample and its advantage, checked."""

    sample: Sample = field(validator=_has_prefix)
    advantage: float = field(validator=_check_finite)
