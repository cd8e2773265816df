"""What a filter is, and its form in the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol

from attrs import Attribute, field, frozen

from astuner.contract.errors import ConfigError
from astuner_tracing.counts import Tally
from astuner_tracing.filters.deduplication import Deduplication, DeduplicationParams
from astuner_tracing.filters.feedback import FeedbackFilter, FeedbackParams
from astuner_tracing.filters.llm_evaluate import LlmAccess, LlmEvaluate, LlmEvaluateParams
from astuner_tracing.tasks import Candidate

_PARAMS: Mapping[str, type[Any]] = {
    "deduplication": DeduplicationParams,
    "feedback": FeedbackParams,
    "llm_evaluate": LlmEvaluateParams,
}


class Filter(Protocol):
    """Drops tasks."""

    best_first: bool
    """Whether it sees the best tasks first (`Candidate.standing`), instead of in order of time."""

    def choose_left_out(self, tasks: Iterator[tuple[int, Candidate]], tally: Tally) -> Iterator[tuple[int, int | None]]:
        """Yield the numbers of the tasks to leave out, each with that of the task kept instead, if any."""
        ...


def _structure(kind: str, params: Mapping[str, Any]) -> Any:
    from astuner.settings.config.structuring import structure_options

    return structure_options(_PARAMS[kind], params, key="params", locate=lambda key: None)


def _are_params(instance: FilterChoice, attribute: Attribute[Any], value: Mapping[str, Any]) -> None:
    try:
        _structure(instance.type, value)
    except ConfigError as error:
        raise ValueError("; ".join(str(problem) for problem in error.problems)) from error


@frozen(kw_only=True)
class FilterChoice:
    """One filter. Filters apply in the written order."""

    type: Literal["deduplication", "feedback", "llm_evaluate"]
    """Its name."""
    enabled: bool = True
    """False disables it."""
    params: Mapping[str, Any] = field(factory=dict, validator=_are_params)
    """Its options."""

    def make(self, asking: LlmAccess) -> Filter:
        """Make the filter. Raises `NoEndpoint` for one that asks an LLM if the environment names none."""
        params = _structure(self.type, self.params)
        match params:
            case LlmEvaluateParams():
                return LlmEvaluate(params, asking)
            case FeedbackParams():
                return FeedbackFilter(params)
        return Deduplication(params)
