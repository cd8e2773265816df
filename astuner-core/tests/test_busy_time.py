"""The time in which an engine has work."""

from __future__ import annotations

import pytest

from astuner.shared import busy_time
from astuner.shared.busy_time import BusyTime


def test_requests_at_the_same_time_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([1.0, 4.0, 10.0, 11.0, 11.5])
    monkeypatch.setattr(busy_time.time, "perf_counter", lambda: next(now))
    busy = BusyTime()
    with busy.count(), busy.count():
        pass
    assert busy.seconds == 3.0
    with busy.count():
        assert busy.seconds == 4.0
    assert busy.seconds == 4.5
