"""The options of the judge `rubrics_auto_grader`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from attrs import Attribute, evolve, field, frozen
from attrs.validators import ge, gt, le, matches_re, min_len

from astuner.contract.errors import PluginError
from astuner.shared.clients import Budget, LLMClient, LLMOptions
from astuner.shared.install_hints import install_command
from astuner_judges.embedding import EmbeddingOptions
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


def _without_what_has_its_own_key(instance: RubricsOptions, attribute: Attribute[Any], value: LLMOptions) -> None:
    if value.model_name is not None:
        raise ValueError("llm.model_name: set the model by model_name, next to llm")
    if value.max_retries != LLMOptions().max_retries:
        raise ValueError("llm.max_retries: how often a request is sent again is max_retries, next to llm")


@frozen(kw_only=True)
class RubricsOptions:
    """Options of the judge `rubrics_auto_grader`."""

    model_name: str = field(default="qwen-max", validator=min_len(1))
    """The LLM that writes the rubrics and grades by them."""
    grader_mode: Literal["pointwise", "listwise"] = "pointwise"
    """Grade each answer on its own, or the answers of a group against each other."""
    language: Literal["en", "zh"] = "en"
    """Language of the prompts, and of the rubrics."""
    min_score: float = 0.0
    """Lowest score that an answer may get; scores are the rewards."""
    max_score: float = field(default=1.0, validator=_check_above_min_score)
    """Highest score that an answer may get."""
    success_threshold: float = field(default=0.7, validator=_check_between_scores)
    """Score from which an answer is a success, and a labelled one good."""
    rubrics_file: str | None = None
    """The file of the rubrics, relative to the YAML: read if it exists, else written. Null keeps them in the
    run directory, as `rubrics/{grader_name}.yaml`."""
    sampling_mode: Literal["all_samples", "smart_sampling"] = "all_samples"
    """Learn from every reference sample, or batch by batch while new rubrics add something."""
    generate_number: int = field(default=1, validator=ge(1))
    """Rubrics written for one sample."""
    max_epochs: int = field(default=2, validator=ge(1))
    """Rounds of rewriting a rubric that grades its own sample wrongly."""
    max_retries: int = field(default=3, validator=ge(0))
    """How often a failed request is sent again."""
    evidence_samples: int = field(default=16, validator=ge(1))
    """Other samples that each rubric grades before it may be chosen."""
    min_agreement: float = field(default=0.7, validator=[gt(0), le(1)])
    """Share of those that it must grade as labelled; good and bad ones weigh the same."""
    batch_size: int = field(default=10, validator=ge(1))
    """Samples of one round of `smart_sampling`; with `all_samples`, samples that are worked on at a time."""
    mcr_batch_size: int = field(default=10, validator=ge(1))
    """Most rubrics that one round of the selection adds."""
    min_increment_threshold: float = field(default=0.002, validator=ge(0))
    """Least coding rate, in nats, that a rubric must add to be chosen, and a round to count as adding something."""
    patience: int = field(default=2, validator=ge(1))
    """The selection ends after this many rounds in a row that added nothing."""
    max_iterations: int = field(default=50, validator=ge(1))
    """Most rounds of the selection."""
    max_total_rubrics: int = field(default=200, validator=ge(1))
    """Most rubrics that are chosen."""
    aggregation_mode: Literal["keep_all", "merge_similar"] = "keep_all"
    """Make each chosen rubric a separate theme, or sort them into a few themes."""
    merge_num_categories: int = field(default=2, validator=ge(1))
    """Most themes of `merge_similar`."""
    requests_per_answer: int = field(default=3, validator=ge(1))
    """The themes are divided among this many requests, whose errors are independent; fewer themes take fewer requests."""
    combine: Literal["median", "mean"] = "median"
    """How an answer's scores by theme become one: `median` tolerates a wrong score among several."""
    grader_name: str = field(default="auto_grader", validator=matches_re(r"[\w.-]+"))
    """Names the grader, and the file that its rubrics are kept in."""
    num_reference_samples: int = field(default=20, validator=gt(0))
    """Number of samples to learn from: the first of the training split. As many of the validation split check the rubrics."""
    query_field: str = "main_query"
    """Where a sample, and a task, holds the question: a field of the task, or a key of its metadata."""
    answer_field: str = "final_answer"
    """Where a workflow's output holds the answer, and a sample its labelled answer."""
    reference_field: str = "answer"
    """Where a sample holds the right answer; it is the example if no answer has a label."""
    label_field: str = "score"
    """Where a sample holds its label: a score, true or false, or a word such as `right` or `wrong`."""
    candidates_field: str = "candidates"
    """Where a sample holds several answers: a list of objects, each with its answer and its label or its rank."""
    rank_field: str = "rank"
    """Where a candidate holds its rank, 1 being the best."""
    input_data_type: Literal["dataset_file", "env_service", "huggingface_dat_repo"] = "dataset_file"
    """The reader of the samples."""
    dataset_file: Mapping[str, Any] = field(factory=dict, validator=_check_chosen_reader)
    """Options of that reader, when it is this one."""
    env_service: Mapping[str, Any] = field(factory=dict, validator=_check_chosen_reader)
    """Options of that reader, when it is this one."""
    huggingface_dat_repo: Mapping[str, Any] = field(factory=dict, validator=_check_chosen_reader)
    """Options of that reader, when it is this one."""
    llm: LLMOptions = field(factory=LLMOptions, validator=_without_what_has_its_own_key)
    """How the LLM is asked: limits, prices, concurrency, cache."""
    embedding: EmbeddingOptions = field(factory=EmbeddingOptions)
    """How rubrics become vectors, which the selection compares for similarity."""

    @property
    def fields(self) -> Fields:
        """Where the samples hold each value."""
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
        """Make the client; `cache` stores answers if the options name no file for them.

        Raises `PluginError` without `openai`, and `NoEndpoint` for an environment that names no LLM.
        """
        if find_spec("openai") is None:
            raise PluginError(f"{WANTED_BY} asks through the library openai: {install_command('astuner-judges[llm]')}")
        llm = evolve(self.llm, max_retries=self.max_retries)
        if llm.cache is None and cache is not None:
            llm = evolve(llm, cache=str(cache))
        return llm.make_client(WANTED_BY, model=self.model_name, config_dir=config_dir, budget=budget)
