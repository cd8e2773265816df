"""The filter `feedback`: selects tasks by their feedback."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import field, frozen

from astuner.settings.config.components import ONE_OR_MANY
from astuner_tracing.counts import Tally
from astuner_tracing.tasks import Candidate


@frozen(kw_only=True)
class FeedbackParams:
    """Options of the filter `feedback`."""

    min_score: float | None = None
    """Drops tasks with a lower mean score."""
    max_score: float | None = None
    """Drops tasks with a higher mean score: 0.5 collects what went wrong."""
    labels: tuple[str, ...] = field(default=(), metadata={ONE_OR_MANY: True})
    """Drops tasks with feedback but none of these labels."""
    exclude_labels: tuple[str, ...] = field(default=(), metadata={ONE_OR_MANY: True})
    """Drops tasks with one of these labels."""
    required: bool = False
    """Also drops tasks without feedback."""


class FeedbackFilter:
    """Drops tasks whose feedback does not match."""

    best_first = False

    def __init__(self, params: FeedbackParams) -> None:
        self._params = params

    def choose_left_out(self, tasks: Iterator[tuple[int, Candidate]], tally: Tally) -> Iterator[tuple[int, None]]:
        """Yield the numbers of the tasks to leave out."""
        return ((number, None) for number, task in tasks if not self._is_wanted(task))

    def _is_wanted(self, task: Candidate) -> bool:
        params = self._params
        if not task.feedback:
            return not params.required
        labels = {label.casefold() for label in task.labels}
        if labels & {label.casefold() for label in params.exclude_labels}:
            return False
        if params.labels and not labels & {label.casefold() for label in params.labels}:
            return False
        if task.reward is None:
            return params.min_score is None and params.max_score is None
        return (params.min_score is None or task.reward >= params.min_score) and (
            params.max_score is None or task.reward <= params.max_score
        )
