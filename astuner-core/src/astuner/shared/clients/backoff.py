"""Pauses between retries: how long, spread at random, and what a server asks for by `Retry-After`.

Each client keeps its own retry loop, since each retries differently: another key at once, a wait for a free place that does not
count as a retry, a reset after a lost session. The library `tenacity` would replace only these lines, and every loop would still
need its own stop and wait; so it is not a dependency.
"""

from __future__ import annotations

import random
import time
from email.utils import parsedate_to_datetime

LONGEST_PAUSE_S = 30.0
_LARGEST_EXPONENT = 30


def pause_before_retry(retries: int, *, first_s: float, longest_s: float, asked_s: float = 0.0) -> float:
    """Return the seconds to wait after `retries` retries: twice as long each time, at least `asked_s`, at most `longest_s`."""
    return min(max(asked_s, first_s * 2.0 ** min(retries, _LARGEST_EXPONENT)), longest_s)


def plan_retry(asked_s: float | None, retries: int, most: int, first_s: float, left_s: float) -> tuple[float, int] | None:
    """Return how long to wait after `retries` retries, and as how many the next one counts; None to give up.

    `asked_s` is the wait that the API asks for, None if a retry is pointless. Within the time that is left it counts as none.
    """
    if asked_s is not None and 0 < asked_s <= left_s:
        return max(asked_s, first_s), 0
    if asked_s is None or retries >= most:
        return None
    return pause_before_retry(retries, first_s=first_s, longest_s=LONGEST_PAUSE_S, asked_s=asked_s), 1


def spread(pause_s: float) -> float:
    """Return a pause up to a fifth longer or shorter: clients that lost a server together do not all return at once."""
    return pause_s * random.uniform(0.8, 1.2)


def parse_retry_after(header: str | None) -> float:
    """Return the seconds of a `Retry-After`, a number or a date; 0 without one, or for anything else."""
    try:
        return max(0.0, float(header or 0))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(str(header)).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0
