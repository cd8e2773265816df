"""The rules of Kuhn poker, and what each role reads before it acts.

Two players put in an ante of 1 each and get one of three cards. They pass or bet 1 more in turn, at most three times; who passes
after a bet loses the antes, and otherwise the higher card wins (Kuhn 1950, "A simplified two-person poker").
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from types import MappingProxyType
from typing import Any

CARDS = ("jack", "queen", "king")
"""From the lowest to the highest."""
ACTIONS = ("pass", "bet")
ROLES = ("first", "second")
DEALS = tuple(permutations(CARDS, 2))
"""The card of the first role, and that of the second; all are equally likely."""
ANTE = 1
POT = 2 * ANTE
"""What is in the pot before anybody acts."""

History = tuple[str, ...]
"""The actions so far."""
InformationSet = tuple[str, History]
"""A card and a history: what the role that acts knows."""

TURNS: Mapping[History, str] = MappingProxyType({(): "first", ("pass",): "second", ("bet",): "second", ("pass", "bet"): "first"})
"""Who acts after which history."""
STORIES: Mapping[History, str] = MappingProxyType(
    {(): "opening", ("pass",): "passed", ("bet",): "raised", ("pass", "bet"): "answered"}
)
"""What a role reads of a history, in a word, as the reader is a tiny model."""
INFORMATION_SETS: tuple[InformationSet, ...] = tuple((card, history) for history in TURNS for card in CARDS)


def count_winnings(deal: tuple[str, str], history: History) -> int:
    """Return what the first role wins in a finished hand, in antes; the second wins the negative."""
    higher = 1 if CARDS.index(deal[0]) > CARDS.index(deal[1]) else -1
    match history:
        case ("bet", "pass"):
            return ANTE
        case ("pass", "bet", "pass"):
            return -ANTE
        case ("pass", "pass"):
            return higher * ANTE
        case _:
            return higher * 2 * ANTE


def write_messages(known: InformationSet) -> list[dict[str, Any]]:
    """Return the conversation of the role that acts: its card, and what has happened."""
    return [{"role": "user", "content": f"{known[0]} {STORIES[known[1]]}"}]


def write_answer(known: InformationSet, action: str) -> str:
    """Return a legal answer: first what the role knows, in one word, then what it does."""
    return f"{known[0]}{STORIES[known[1]]} {action}"


def read_action(known: InformationSet, answer: str) -> str | None:
    """Return the action of an answer; None if the answer is not legal."""
    return next((action for action in ACTIONS if answer == write_answer(known, action)), None)
