"""What is handed to the thread that sends."""

from __future__ import annotations

from attrs import frozen

from astuner_loggers.otel.selection import ChosenEpisode


@frozen(kw_only=True, eq=False)
class Report:
    """The chosen episodes of a step, or of a validation."""

    ended_ns: int
    """When the step ended, nanoseconds since 1970."""
    episodes: tuple[ChosenEpisode, ...]
