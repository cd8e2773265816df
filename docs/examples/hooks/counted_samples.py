"""Wraps the factory of trackers: each episode has its own tracker, so the wrapper returns a factory, not a tracker."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from astuner import hookimpl
from astuner.contract.protocols import EpisodeIdentity, MakeTracker, Tracked, Tracker
from astuner.contract.schema import Call


class CountedSamples:
    def __init__(self) -> None:
        self.samples = 0

    @hookimpl(wrapper=True)
    def astuner_make_tracker(self) -> Generator[None, MakeTracker, MakeTracker]:
        make = yield
        return lambda: _Counted(make(), self)


class _Counted:
    def __init__(self, inner: Tracker, counter: CountedSamples) -> None:
        self._inner, self._counter = inner, counter

    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Tracked:
        tracked = self._inner.samples(calls, identity)
        self._counter.samples += len(tracked.samples)
        return tracked
