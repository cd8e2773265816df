"""The options of the reader `tracing`; `astuner trace import` makes the same from its arguments."""

from __future__ import annotations

from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import deep_iterable, ge, in_, lt, optional

from astuner.settings.config.components import ONE_OR_MANY
from astuner_tracing.filters.filter import FilterChoice
from astuner_tracing.splitting import Split


def _is_named(instance: TracingOptions, attribute: Attribute[Any], value: tuple[str, ...]) -> None:
    if not (value or instance.base_url) or "" in value:
        raise ValueError("name at least one source: an OTLP file, a database of AgentScope Studio or Phoenix, a Phoenix server")


def _agrees(instance: TracingOptions, attribute: Attribute[Any], value: str | None) -> None:
    if value is not None:
        Split(fraction=instance.validation_fraction, after=value)


@frozen(kw_only=True)
class TracingOptions:
    """Options of the reader `tracing`."""

    sources: tuple[str, ...] = field(default=(), metadata={ONE_OR_MANY: True}, validator=_is_named)
    """The traces, one or several places: files (also `traces*.jsonl`), relative to the YAML, or `http://…` of a Phoenix."""
    base_url: str | None = None
    """Another place for one source."""
    project: str | None = None
    """The project in Phoenix; all when null."""
    agents: tuple[str, ...] = field(default=(), metadata={ONE_OR_MANY: True})
    """Only turns of these agents; of all outermost agents when empty."""
    keep_system_prompt: bool = True
    """Whether a task's `init_messages` include the recorded system prompt."""
    require_answer: bool = True
    """Drop turns without an answer."""
    annotators: tuple[str, ...] = field(
        default=("human",), metadata={ONE_OR_MANY: True}, validator=deep_iterable(in_(("human", "llm", "code")))
    )
    """Whose annotations count: `human`, `llm`, `code`."""
    annotation_names: tuple[str, ...] = field(default=(), metadata={ONE_OR_MANY: True})
    """Only annotations of these names; all when empty."""
    good_from: float = 0.5
    """The mean score from which a recorded answer is right; a lower one makes it the `rejected_answer`."""
    filters: tuple[FilterChoice, ...] = (FilterChoice(type="deduplication"),)
    """The filters of tasks, in this order."""
    validation_fraction: float = field(default=0.0, validator=[ge(0), lt(1)])
    """Share of the conversations for validation, chosen by a hash of their first question."""
    validation_after: str | None = field(default=None, validator=_agrees)
    """Instead of a share: conversations with a turn from this time on are for validation."""
    validation_by: Literal["conversation", "task"] = "conversation"
    """What stays in one split. With `task`, turns of one conversation may be in both."""
    limit: int | None = field(default=None, validator=optional(ge(1)))
    """Only the first `limit` tasks of each split."""
    alien_llm_model: str = "qwen3-235b-a22b-instruct-2507"
    """The LLM for filters."""
    alien_llm_response_length: int = field(default=2048, validator=ge(1))
    """Most tokens of its answer."""
    train_output_path: str | None = None
    """A second file for the training tasks, besides the one in the run directory; relative to the YAML."""
    validation_output_path: str | None = None
    """The same for the validation tasks."""

    @property
    def named_sources(self) -> tuple[str, ...]:
        """All sources."""
        return (*self.sources, *([self.base_url] if self.base_url else []))

    @property
    def split(self) -> Split:
        """The rule for validation."""
        return Split(fraction=self.validation_fraction, after=self.validation_after, by=self.validation_by)
