"""Why episodes have no reward, counted by cause, each cause with one example."""

from __future__ import annotations

import re
from collections.abc import Iterable

from astuner.contract.schema import Episode, Unjudged

_VARYING = re.compile(r"[\w.+-]*\d[\w.+-]*")
"""Numbers, and words with a digit such as ids: causes that differ only in these are one."""


def count_causes(episodes: Iterable[Episode], most: int = 5) -> list[tuple[int, str]]:
    """Return the most frequent causes with how often each occurred and an example of it, the most frequent first.

    Errors that one line of users' code raises are one cause, whatever they say.
    """
    counts: dict[tuple[str, str], int] = {}
    examples: dict[tuple[str, str], str] = {}
    for episode in episodes:
        reason, detail, place = _find_cause(episode)
        cause = (reason, place or _VARYING.sub("#", detail))
        counts[cause] = counts.get(cause, 0) + 1
        examples.setdefault(cause, f"{reason}: {detail}" if detail else reason)
    ordered = sorted(counts, key=lambda cause: -counts[cause])
    return [(counts[cause], examples[cause]) for cause in ordered[:most]]


def _find_cause(episode: Episode) -> tuple[str, str, str]:
    if episode.failures and not episode.completed:
        return episode.failures[-1].reason, episode.failures[-1].detail, episode.failures[-1].place
    if isinstance(episode.verdict, Unjudged):
        return episode.verdict.reason, episode.verdict.detail, episode.verdict.place
    return "no verdict", "", ""
