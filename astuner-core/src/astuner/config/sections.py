"""Options of the components that the documentation describes, whether or not what provides them is installed.

A section of one of these is checked when the configuration is loaded. Where the component is installed, its own `Options` decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import ge, gt, optional


@frozen(kw_only=True)
class FileSplit:
    """One split in a file."""

    file_path: str
    """A file of tasks, one JSON object per line; relative to the YAML."""
    columns: Mapping[str, str] = field(factory=dict)
    """Which column is which: field of a task, or name in its metadata → column of the file."""
    limit: int | None = field(default=None, validator=optional(ge(1)))
    """Only the first so many rows."""


@frozen(kw_only=True)
class DatasetFileSection:
    """Options of the reader `dataset_file`."""

    training: FileSplit | None = None
    validation: FileSplit | None = None


@frozen(kw_only=True)
class EnvServiceSection:
    """Options of the reader `env_service`."""

    env_type: str = "appworld"
    """The environment, as it was started in the service."""
    env_url: str = "http://127.0.0.1:8080"
    """Address of the service."""
    env_action_preference: Literal["code", "text", "box"] = "code"
    """The form in which actions are written."""
    training_split: str = "train"
    """What the environment calls its training tasks."""
    validation_split: str = "dev"
    """What the environment calls its validation tasks."""


@frozen(kw_only=True)
class HuggingFaceSection:
    """Options of the reader `huggingface_dat_repo`."""

    dataset_path: str
    """The repository, or a directory of the same layout."""
    training_split: str = "train"
    """Name of the split that is trained on."""
    validation_split: str = "validation"
    """Name of the split that is validated on."""


@frozen(kw_only=True)
class RubricsSection:
    """Options of the judge `rubrics_auto_grader`."""

    model_name: str = "qwen-max"
    """The LLM that writes the rubrics and grades by them."""
    grader_mode: Literal["pointwise", "listwise"] = "pointwise"
    """Grade each answer by itself, or the answers of a group against each other."""
    language: Literal["en", "zh"] = "en"
    """Language of the prompts."""
    min_score: float = 0.0
    """Lowest score a rubric may give."""
    max_score: float = 1.0
    """Highest score a rubric may give."""
    success_threshold: float = 0.7
    """Score from which an answer is a success."""
    sampling_mode: Literal["all_samples", "smart_sampling"] = "all_samples"
    """Learn from every reference sample, or go on only as long as new rubrics add something."""
    generate_number: int = field(default=1, validator=ge(1))
    """Rubrics written for one sample."""
    max_epochs: int = field(default=2, validator=ge(1))
    """Rounds of rewriting a rubric that grades its own sample wrongly."""
    max_retries: int = field(default=3, validator=ge(0))
    """How often a failed request is sent again."""
    aggregation_mode: Literal["keep_all", "merge_similar"] = "keep_all"
    """Keep every rubric, or merge those that say the same."""
    grader_name: str = "auto_grader"
    """Names the grader in what is saved."""
    num_reference_samples: int = field(default=20, validator=gt(0))
    """Samples that the rubrics are learnt from."""
    query_field: str = "main_query"
    """Where a reference sample holds the question."""
    answer_field: str = "final_answer"
    """Where a workflow's output holds the answer."""
    reference_field: str = "answer"
    """Where a reference sample holds the right answer."""
    input_data_type: str = "dataset_file"
    """The reader of the reference samples."""
    dataset_file: Mapping[str, Any] = field(factory=dict)
    """Options of that reader, when it is this one."""
    env_service: Mapping[str, Any] = field(factory=dict)
    """Options of that reader, when it is this one."""
    huggingface_dat_repo: Mapping[str, Any] = field(factory=dict)
    """Options of that reader, when it is this one."""


@frozen(kw_only=True)
class Documented:
    """A documented section, and which entry point provides the component."""

    options: type[Any]
    group: str
    name: str


DOCUMENTED: Mapping[str, Documented] = {
    "task_reader.dataset_file": Documented(options=DatasetFileSection, group="astuner.readers", name="dataset_file"),
    "task_reader.env_service": Documented(options=EnvServiceSection, group="astuner.readers", name="env_service"),
    "task_reader.huggingface_dat_repo": Documented(
        options=HuggingFaceSection, group="astuner.readers", name="huggingface_dat_repo"
    ),
    "task_judge.rubrics_auto_grader": Documented(options=RubricsSection, group="astuner.judges", name="rubrics_auto_grader"),
}
"""By key path below `astuner`."""


TRACKERS = ("timeline", "linear", "sliding_window", "auto_context", "linear_think")
"""The trackers that the documentation describes."""


def is_offered(group: str, name: str) -> bool:
    """Whether an installed distribution offers a component of this name; nothing is imported."""
    from importlib.metadata import entry_points

    return bool(entry_points(group=group, name=name))
