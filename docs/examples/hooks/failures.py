"""Listens to episodes: counts failures by reason, and prints and resets the counts at the end of each step."""

from __future__ import annotations

import sys
from collections import Counter

from astuner import hookimpl
from astuner.contract.schema import Episode, StepReport


class Failures:
    def __init__(self) -> None:
        self._reasons: Counter[str] = Counter()

    @hookimpl
    def astuner_episode_finished(self, episode: Episode) -> None:
        if not episode.completed and episode.failures:
            self._reasons[episode.failures[-1].reason] += 1

    @hookimpl
    def astuner_step_finished(self, report: StepReport) -> None:
        counted = ", ".join(f"{count} x {reason}" for reason, count in self._reasons.most_common())
        print(f"failures: step {report.step}: {counted or 'none'}", file=sys.stderr)
        self._reasons.clear()
