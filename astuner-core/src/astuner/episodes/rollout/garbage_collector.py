"""The pace of Python's garbage collector while episodes are played."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (20_000, 2, 2)
"""Of new containers before a collection, and of collections before those of the next older generation."""


@contextmanager
def relax_collector() -> Iterator[None]:
    """Let the garbage collector walk through fewer objects while the block lasts.

    Episodes in flight hold hundreds of objects each, which Python's own thresholds look at again after every few calls, and
    at every full collection with all that libraries, tokenizers and models have made: a fifth of the CPU time of hundreds of
    episodes at a time. What exists now is left out, and collections are rarer. A slower pace, or none, stays as it is.
    """
    before, froze = gc.get_threshold(), gc.get_freeze_count() == 0
    if froze:
        gc.freeze()
    if 0 < before[0] < THRESHOLDS[0]:
        gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if froze:
            gc.unfreeze()
