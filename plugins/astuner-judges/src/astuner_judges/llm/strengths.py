"""The Bradley–Terry model of comparisons: strengths that explain who won against whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose

_PRIOR = 0.5
"""Games that each player wins, and loses, against one of strength 1: they bound the strength of an unbeaten player."""

_ROUNDS = 1000


def fit_strengths(players: Sequence[str], shares: Mapping[tuple[str, str], float]) -> Mapping[str, float]:
    """Return the strength of each player by the share (0 to 1) that the first of each pair won.

    Fitted by minorisation–maximisation (Hunter 2004, doi:10.1214/aos/1079120141, equation 3). In the model, i wins against j
    with probability s_i / (s_i + s_j).
    """
    wins = dict.fromkeys(players, _PRIOR)
    for (first, second), share in shares.items():
        wins[first] += share
        wins[second] += 1 - share
    found = dict.fromkeys(players, 1.0)
    for _ in range(_ROUNDS):
        met = {player: 2 * _PRIOR / (found[player] + 1) for player in players}
        for first, second in shares:
            for player in (first, second):
                met[player] += 1 / (found[first] + found[second])
        fitted = {player: wins[player] / met[player] for player in players}
        if all(isclose(fitted[player], found[player], rel_tol=1e-12) for player in players):
            return fitted
        found = fitted
    return found
