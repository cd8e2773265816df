"""The backbone that plays a contestant behind an API: it only evaluates, and counts what the API used."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import define, evolve

from astuner.contract.errors import UsageError
from astuner.contract.protocols import BackboneTraits, Control, RunInfo, TaskSource
from astuner.contract.schema import Event, ValidationReport
from astuner.episodes.builtin.engines.openai_engine import OpenAIEngine
from astuner.runs.training.learner import LearnerTraits

if TYPE_CHECKING:
    from astuner.episodes.rollout.recipe import Recipe

PROMPT_TOKENS = "val/tokens/prompt"
GENERATED_TOKENS = "val/tokens/generated"


class ApiBackbone:
    """Plays the validation tasks through `rollout.openai`."""

    name: ClassVar[str] = "api"
    traits = BackboneTraits(honours=("*",), default_engines=("openai",), trains=False)

    def train(self, run: RunInfo, tasks: TaskSource, recipe: Recipe, control: Control) -> Generator[Event]:
        """Refuse: the weights are elsewhere."""
        raise UsageError("the model of an API is not trained; choose another backbone")

    def evaluate(
        self, run: RunInfo, tasks: TaskSource, recipe: Recipe, checkpoint: Path | None, control: Control
    ) -> Generator[Event]:
        """Yield the report of one validation pass, with the tokens that the API counted."""
        from astuner.runs.training.loop import evaluate

        if checkpoint is not None or recipe.engine is None:
            raise UsageError("an API has no checkpoints; name the model with --api")
        engine = _CountedEngine(recipe.engine.options)
        learner: Any = _Nothing(engine)
        for event in evaluate(run, tasks, recipe, control, learner):
            # Some servers count nothing.
            if isinstance(event, ValidationReport) and engine.prompt_tokens:
                counts = {PROMPT_TOKENS: float(engine.prompt_tokens), GENERATED_TOKENS: float(engine.generated_tokens)}
                event = evolve(event, metrics={**event.metrics, **counts})
            yield event

    def export(self, checkpoint: Path, out: Path, *, merge_lora: bool, dtype: str | None = None) -> None:
        """Refuse: there is nothing to export."""
        raise UsageError("the model of an API cannot be exported")

    def close(self) -> None:
        """Do nothing."""


class _CountedEngine(OpenAIEngine):
    """The API, and what it said that each answer took."""

    prompt_tokens = generated_tokens = 0

    async def chat(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = await super().chat(body)
        used = answer.get("usage") if isinstance(answer, Mapping) else None
        if isinstance(used, Mapping):
            self.prompt_tokens += _read_count(used.get("prompt_tokens"))
            self.generated_tokens += _read_count(used.get("completion_tokens"))
        return answer


@define(eq=False)
class _Nothing:
    """A learner without weights."""

    engine: OpenAIEngine
    traits: ClassVar[LearnerTraits] = LearnerTraits(brings_engine=True)
    step: ClassVar[int] = 0

    def own_engine(self) -> OpenAIEngine:
        return self.engine


def _read_count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0
