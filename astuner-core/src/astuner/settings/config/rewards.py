"""How the verdicts of judges become one reward: weights, gates and shaping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import ge


@frozen(kw_only=True)
class Shape:
    """Transforms a reward before it counts: `scale * reward + offset`, held between `low` and `high`."""

    scale: float = 1.0
    """A negative one turns a reward into a penalty."""
    offset: float = 0.0
    low: float | None = None
    high: float | None = None

    def __call__(self, reward: float) -> float:
        """Return the shaped reward."""
        shaped = self.scale * reward + self.offset
        if self.low is not None:
            shaped = max(shaped, self.low)
        return shaped if self.high is None else min(shaped, self.high)

    def undo(self, shaped: float) -> float:
        """Return the reward that is shaped into this one, limits aside."""
        return (shaped - self.offset) / self.scale if self.scale else shaped


@frozen(kw_only=True)
class Overlong:
    """A penalty that grows with the sampled length: DAPO's soft overlong punishment (arXiv 2503.14476, equation 13)."""

    from_tokens: int = field(validator=ge(0))
    """Tokens that the trained agents of an episode may sample without penalty."""
    over_tokens: int = field(validator=ge(1))
    """Further tokens over which the penalty grows; after them it is whole."""
    penalty: float = field(default=1.0, validator=ge(0))
    """The whole penalty, which is subtracted from the reward."""

    def __call__(self, tokens: int) -> float:
        """Return the amount added to the reward: 0 or less."""
        share = (tokens - self.from_tokens) / self.over_tokens
        return -self.penalty * min(max(share, 0.0), 1.0)


@frozen(kw_only=True)
class JudgeChoice:
    """One of several judges."""

    judge: str
    """A judge's name, or `package.module->Class`."""
    name: str | None = None
    """Its name in logs and in `requires`; the judge's own name when null."""
    weight: float = field(default=1.0, validator=ge(0))
    """Share in the combined reward; 0 only records it."""
    only: Mapping[str, Any] = field(factory=dict)
    """It judges only tasks whose fields have these values, as in `{kind: math}`; a list allows several values of a field."""
    requires: Mapping[str, float] = field(factory=dict)
    """Gates: it judges only episodes to which these judges, by name, gave at least this reward."""
    otherwise: float = 0.0
    """Its reward for an episode that did not pass its gates."""
    shape: Shape = field(factory=Shape)
    """Transforms its reward before weighting; the original reward is logged."""
    options: Mapping[str, Any] = field(factory=dict)
    """Its options; its own section `task_judge.NAME` when empty."""

    @property
    def known_as(self) -> str | None:
        """Its name for other judges; None for unnamed code of the user."""
        return self.name or (None if "->" in self.judge or ":" in self.judge else self.judge.rpartition("/")[2])


@frozen(kw_only=True)
class RewardComposition:
    """How the rewards of all judges become one."""

    combine: Literal["sum", "mean", "product", "min", "max"] = "sum"
    """`sum` and `mean` use the weights; for the others a weight above 0 only says that a judge counts."""
    shape: Shape = field(factory=Shape)
    """Transforms the combined reward."""
    overlong: Overlong | None = None
    """A penalty for long episodes, added last and logged as `reward/overlong`."""
    success: Literal["all", "any"] | None = "all"
    """An episode is a success when all judges that report success agree, or any of them; null leaves it open."""


def order_by_requirements(requires: Mapping[str, Mapping[str, float]]) -> list[list[str]]:
    """Return names in rounds, each of which requires only earlier rounds; raises `ValueError` naming what cannot be ordered."""
    rounds: list[list[str]] = []
    done: set[str] = set()
    while len(done) < len(requires):
        ready = [name for name, needs in requires.items() if name not in done and done >= needs.keys()]
        if not ready:
            stuck = {name: sorted(needs.keys() - done) for name, needs in requires.items() if name not in done}
            reasons = "; ".join(f"'{name}' requires {', '.join(map(repr, needs))}" for name, needs in stuck.items())
            raise ValueError(f"no order of the judges satisfies what they require: {reasons}; there are: {', '.join(requires)}")
        rounds.append(ready)
        done |= set(ready)
    return rounds
