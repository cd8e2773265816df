"""Episodes of runs made up on disk."""

from __future__ import annotations

import pytest
from attrs import evolve

from astuner.contract.schema import Episode, Failure
from astuner_devkit.episodes import episode


def fail(one: Episode) -> Episode:
    return evolve(one, output=None, verdict=None, samples=(), failures=(Failure(reason="timeout", detail="too slow"),))


@pytest.fixture
def stored() -> list[Episode]:
    """Two steps of two tasks with two siblings; one has failed, and the judge failed on another."""
    return [
        episode(1, 0.5, task="b", step=2),
        episode(0, 0.25, task="b", step=1, success=False),
        episode(1, 1.0, task="b", step=1, success=True),
        episode(0, 0.0, task="a", step=1, success=False),
        fail(episode(1, task="a", step=1)),
        episode(0, None, task="b", step=2),
    ]
