"""An environment whose score is computed once."""

from __future__ import annotations

import asyncio
from typing import Any


class ScoredOnce:
    """Passes everything through to an environment, and remembers its score until it is acted upon again.

    The loop and each judge ask for the score. Computing it may run a test suite, and a server with state may not give the
    same one twice.
    """

    def __init__(self, environment: Any) -> None:
        """Wrap an environment."""
        self._environment = environment
        self._scores: dict[str, asyncio.Future[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    def reset(self) -> Any:
        """Forget the score, and reset."""
        self._scores.clear()
        return self._environment.reset()

    def step(self, action: Any) -> Any:
        """Forget the score, and act."""
        self._scores.clear()
        return self._environment.step(action)

    def evaluate(self, *args: Any, **options: Any) -> Any:
        """Return an awaitable of the score; `sparse=False` asks the same as no option. A failure is not remembered."""
        question = repr((args, sorted((name, value) for name, value in options.items() if (name, value) != ("sparse", False))))
        known = self._scores.get(question)
        if known is None or (known.done() and (known.cancelled() or known.exception() is not None)):
            found = self._environment.evaluate(*args, **options)
            if not hasattr(found, "__await__"):
                # A mistake, which the caller reports.
                return found
            known = self._scores[question] = asyncio.ensure_future(found)
        # Cancelling one caller leaves the score to the others.
        return asyncio.shield(known)

    def cancel_scores(self) -> None:
        """Cancel what is still computed: it has no reader once the episode is over."""
        for score in self._scores.values():
            score.cancel()
