from __future__ import annotations

import pytest

from astuner.episodes.judging import judge_calls


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judges whose service fails are asked again at once."""
    monkeypatch.setattr(judge_calls, "PAUSES_S", (0.0, 0.0))
