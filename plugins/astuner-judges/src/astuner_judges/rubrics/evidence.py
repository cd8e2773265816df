"""How a rubric does on other examples: it was made to fit its own."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from attrs import frozen

from astuner_judges.rubrics.examples import Example

CHANCE = 0.5


@frozen(kw_only=True)
class Evidence:
    """How a rubric graded examples that it was not made from."""

    good: tuple[float, ...] = ()
    """Agreement with each good example, 0 to 1; examples with several answers all count here."""
    bad: tuple[float, ...] = ()
    """With each bad one."""
    failed: int = 0
    """Examples on which the LLM gave no verdict; they do not count."""

    @property
    def count(self) -> int:
        """The number of examples with a verdict."""
        return len(self.good) + len(self.bad)

    @property
    def agreement(self) -> float:
        """The share of right verdicts, good and bad examples weighing the same; 0 without any."""
        shares = [sum(side) / len(side) for side in (self.good, self.bad) if side]
        return sum(shares) / len(shares) if shares else 0.0

    @property
    def skill(self) -> float:
        """Accuracy scaled from chance (0) to always right (1)."""
        return max(0.0, (self.agreement - CHANCE) / (1 - CHANCE))


def evidence_order(examples: Sequence[Example], seed: int) -> list[int]:
    """Return the indices of examples in the order of their use as evidence: shuffled, good and bad ones alternating."""
    shuffled = list(range(len(examples)))
    random.Random(seed).shuffle(shuffled)
    good = [place for place in shuffled if examples[place].is_good]
    bad = [place for place in shuffled if not examples[place].is_good]
    by_turns = [place for pair in zip(good, bad, strict=False) for place in pair]
    rest = good[len(bad) :] or bad[len(good) :]
    return by_turns + rest


def choose_others(order: Sequence[int], examples: Sequence[Example], own: Collection[str], most: int) -> list[int]:
    """Return the first places of that order whose examples share no digest with a rubric's own."""
    return [place for place in order if not {*examples[place].digests} & {*own}][:most]
