"""The model in training for the judges of a run, which ask it as a frozen agent while the run's gateway is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar

from astuner.contract.protocols import Tuner

OpenTuner = Callable[[str], AbstractAsyncContextManager[Tuner]]
"""Returns the tuner of a judge for an episode, by the episode's id; its calls are not part of the episode."""

_offered: ContextVar[OpenTuner | None] = ContextVar("astuner_judge_tuner", default=None)


@contextmanager
def offer_tuner(open_tuner: OpenTuner) -> Iterator[None]:
    """Offer the model to all judges that are asked within the context, however they are combined."""
    token = _offered.set(open_tuner)
    try:
        yield
    finally:
        _offered.reset(token)


def find_tuner() -> OpenTuner | None:
    """Return what opens a tuner here; None where no model is running, as in a replay."""
    return _offered.get()
