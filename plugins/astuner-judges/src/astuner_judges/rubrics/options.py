"""The options of the judge `rubrics_auto_grader`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import Attribute, evolve, field, frozen

from astuner.clients.embedding import EmbeddingOptions
from astuner.clients.llm import LLMClient
from astuner.clients.llm_budget import Budget
from astuner.clients.llm_options import LLMOptions
from astuner.config.sections import RubricsSection
from astuner.errors import PluginError
from astuner_judges.evaluation.labelled import Fields

KEY = "astuner.task_judge.rubrics_auto_grader"
WANTED_BY = "judge 'rubrics_auto_grader'"


def _check_above_min_score(instance: RubricsOptions, attribute: Attribute[Any], value: float) -> None:
    if value <= instance.min_score:
        raise ValueError(f"max_score is {value:g}, and min_score {instance.min_score:g}: it must be higher")


def _check_between_scores(instance: RubricsOptions, attribute: Attribute[Any], value: float) -> None:
    if not instance.min_score < value <= instance.max_score:
        raise ValueError(
            f"success_threshold is {value:g}: it must lie above min_score ({instance.min_score:g}) and not above max_score "
            f"({instance.max_score:g})"
        )


def _check_chosen_reader(instance: RubricsOptions, attribute: Attribute[Any], value: Mapping[str, Any]) -> None:
    if value and instance.input_data_type != attribute.name:
        raise ValueError(
            f"input_data_type is '{instance.input_data_type}', so '{attribute.name}' would have no effect; remove one of the two"
        )


def _reject_duplicate_keys(instance: RubricsOptions, attribute: Attribute[Any], value: LLMOptions) -> None:
    if value.model_name is not None:
        raise ValueError("llm.model_name: set the model by model_name, next to llm")
    if value.max_retries != LLMOptions().max_retries:
        raise ValueError("llm.max_retries: how often a request is sent again is max_retries, next to llm")


@frozen(kw_only=True)
class RubricsOptions(RubricsSection):
    """Options of the judge `rubrics_auto_grader`."""

    max_score: float = field(default=1.0, validator=_check_above_min_score)
    """Highest score that an answer may get."""
    success_threshold: float = field(default=0.7, validator=_check_between_scores)
    """Score from which an answer is a success, and a labelled one good."""
    dataset_file: Mapping[str, Any] = field(factory=dict, validator=_check_chosen_reader)
    """Options of that reader, when it is this one."""
    env_service: Mapping[str, Any] = field(factory=dict, validator=_check_chosen_reader)
    """Options of that reader, when it is this one."""
    huggingface_dat_repo: Mapping[str, Any] = field(factory=dict, validator=_check_chosen_reader)
    """Options of that reader, when it is this one."""
    llm: LLMOptions = field(factory=LLMOptions, validator=_reject_duplicate_keys)  # type: ignore[assignment]  # core has it as written
    embedding: EmbeddingOptions = field(factory=EmbeddingOptions)  # type: ignore[assignment]  # likewise

    @property
    def fields(self) -> Fields:
        """Where the samples hold what."""
        return Fields(
            query=self.query_field,
            answer=self.answer_field,
            reference=self.reference_field,
            label=self.label_field,
            candidates=self.candidates_field,
            rank=self.rank_field,
            low=self.min_score,
            high=self.max_score,
        )

    def client(self, config_dir: Path, cache: Path | None = None, budget: Budget | None = None) -> LLMClient:
        """Make the client; `cache` is where answers are kept when the options name no file for them.

        Raises `PluginError` without `openai`, and `NoEndpoint` for an environment that names no LLM.
        """
        if find_spec("openai") is None:
            raise PluginError(f'{WANTED_BY} asks through the library openai: pip install "astuner-judges[llm]"')
        llm = evolve(self.llm, max_retries=self.max_retries)
        if llm.cache is None and cache is not None:
            llm = evolve(llm, cache=str(cache))
        return llm.client(WANTED_BY, model=self.model_name, config_dir=config_dir, budget=budget)
