"""Which groups of a step are trained if those without signal are replaced (DAPO, arXiv 2503.14476)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from astuner.contract.schema import Group
from astuner.episodes.judging.advantages import has_no_signal


@frozen(kw_only=True, eq=False)
class PlayedGroups:
    """The groups of a step."""

    groups: list[Group] | None
    """To be trained; None when the user stopped."""
    left_out: Sequence[Group] = ()
    """Played, and left out by `filter_groups`."""
    without_signal: int = 0
    surplus: int = 0
    """Groups with signal beyond those that were wanted."""

    @property
    def counts(self) -> dict[str, float]:
        """The metrics of the filter."""
        return {"signal/groups_filtered": float(self.without_signal), "signal/groups_surplus": float(self.surplus)}


def filter_groups(played: Sequence[Group], wanted: int, *, by_agent: bool) -> PlayedGroups:
    """Choose `wanted` of the groups that were played, in their order: those with signal, as far as there are enough."""
    dead = [has_no_signal(group, by_agent=by_agent) for group in played]
    kept = [group for group, is_dead in zip(played, dead, strict=True) if not is_dead]
    dropped = [group for group, is_dead in zip(played, dead, strict=True) if is_dead]
    # A short batch is filled up with groups without signal: they count in the denominators, as without the filter.
    fill = max(0, wanted - len(kept))
    return PlayedGroups(
        groups=spread_evenly(kept[:wanted], dropped[:fill]),
        left_out=[*kept[wanted:], *dropped[fill:]],
        without_signal=len(dropped),
        surplus=len(kept[wanted:]),
    )


def spread_evenly(kept: Sequence[Group], fill: Sequence[Group]) -> list[Group]:
    """Return both in their orders, the fill between the others: a mini-batch is cut from neighbours, and needs signal."""
    total, left = len(kept) + len(fill), (iter(kept), iter(fill))
    return [next(left[(place + 1) * len(fill) // total > place * len(fill) // total]) for place in range(total)]
