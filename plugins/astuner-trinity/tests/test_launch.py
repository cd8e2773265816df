"""How explorer and trainer begin together; calls to actors are answered in this process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trinity")


class Explorer:
    """Looks for weights by itself: has version 0 when it has been asked so many times."""

    def __init__(self, asked: int) -> None:
        self._asked = asked

    @property
    def model_version(self) -> int:
        self._asked -= 1
        return -1 if self._asked > 0 else 0


class Called:
    """A call to an actor, answered at once."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def remote(self, *arguments: Any) -> Any:
        return self._answer(*arguments)


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> Any:
    from astuner_trinity import launch

    monkeypatch.setattr(launch, "ray", SimpleNamespace(get=lambda answer: answer))
    monkeypatch.setattr(launch, "LOOK_S", 0.001)
    return launch


def waited(launch: Any, explorer: Explorer, timeout: float) -> None:
    handle = SimpleNamespace(__ray_call__=Called(lambda function: function(explorer)))
    launch._await_weights(handle, SimpleNamespace(get_latest_model_version=Called(lambda: 0)), timeout)


def test_an_explorer_that_looks_for_weights_is_waited_for(launch: Any) -> None:
    explorer = Explorer(asked=3)
    waited(launch, explorer, timeout=60)
    assert explorer._asked == 0


def test_one_that_finds_none_ends_the_stage(launch: Any) -> None:
    with pytest.raises(launch.StageFailed, match="sync_timeout"):
        waited(launch, Explorer(asked=10**9), timeout=0.01)
