"""Options of the components that the documentation describes, whether or not what provides them is installed.

A section of one of these is checked when the configuration is loaded. Where the component is installed, its own `Options` decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import ge, gt, le, matches_re, min_len, optional


@frozen(kw_only=True)
class FileSplit:
    """One split in a file."""

    file_path: str
    """A file of tasks: JSON lines (`.jsonl`), a JSON list (`.json`), `.csv`, `.tsv` or `.parquet`; relative to the YAML."""
    columns: Mapping[str, str] = field(factory=dict)
    """Which column is which: field of a task, or name in its metadata → column of the file."""
    json_columns: tuple[str, ...] = ()
    """Columns of text that is read as JSON: the numbers, lists and objects of a csv file, whose cells are texts otherwise."""
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
    training_split: str | None = "train"
    """What the environment calls its training tasks; null for none."""
    validation_split: str | None = "dev"
    """What the environment calls its validation tasks; null for none."""
    params: Mapping[str, Any] = field(factory=dict)
    """What the service is sent with the tasks' listing and creation."""
    limit: int | None = field(default=None, validator=optional(ge(1)))
    """Only the first so many tasks of each split."""


@frozen(kw_only=True)
class HuggingFaceSection:
    """Options of the reader `huggingface_dat_repo`."""

    dataset_path: str = field(validator=min_len(1))
    """A repository of the hub, or a local directory or file (csv, tsv, parquet, json, jsonl, arrow), relative to the YAML."""
    config_name: str | None = None
    """Which configuration, for a data set that has several, such as `main` of `openai/gsm8k`."""
    training_split: str | None = "train"
    """Which split is trained on; also a part of one, `train[:1000]`, or several, `train+test`."""
    validation_split: str | None = "validation"
    """Which split is validated on; null for none."""
    columns: Mapping[str, str] = field(factory=dict)
    """Which column is which: field of a task, or name in its metadata → column of the data set."""
    json_columns: tuple[str, ...] = ()
    """Columns of text that is read as JSON."""
    revision: str | None = None
    """Branch, tag or commit of the repository."""
    streaming: bool = False
    """Fetch rows as they are read, instead of the whole data set before the first one."""
    limit: int | None = field(default=None, validator=optional(ge(1)))
    """Only the first so many rows of each split."""


@frozen(kw_only=True)
class RubricsSection:
    """Options of the judge `rubrics_auto_grader`."""

    model_name: str = field(default="qwen-max", validator=min_len(1))
    """The LLM that writes the rubrics and grades by them."""
    grader_mode: Literal["pointwise", "listwise"] = "pointwise"
    """Grade each answer by itself, or the answers of a group against each other."""
    language: Literal["en", "zh"] = "en"
    """Language of the prompts, and of the rubrics."""
    min_score: float = 0.0
    """Lowest score that an answer may get; scores are the rewards."""
    max_score: float = 1.0
    """Highest score that an answer may get."""
    success_threshold: float = 0.7
    """Score from which an answer is a success, and a labelled one good."""
    rubrics_file: str | None = None
    """Where the rubrics are kept, relative to the YAML: read when it is there, written when it is not. Null keeps them in the
    run directory, as `rubrics/{grader_name}.yaml`."""
    sampling_mode: Literal["all_samples", "smart_sampling"] = "all_samples"
    """Learn from every reference sample, or batch by batch only as long as new rubrics add something."""
    generate_number: int = field(default=1, validator=ge(1))
    """Rubrics written for one sample."""
    max_epochs: int = field(default=2, validator=ge(1))
    """Rounds of rewriting a rubric that grades its own sample wrongly."""
    max_retries: int = field(default=3, validator=ge(0))
    """How often a failed request is sent again."""
    evidence_samples: int = field(default=16, validator=ge(1))
    """Other samples that each rubric grades before it may be chosen."""
    min_agreement: float = field(default=0.7, validator=[gt(0), le(1)])
    """Share of those that it must grade as they are labelled, good and bad ones weighing the same."""
    batch_size: int = field(default=10, validator=ge(1))
    """Samples of one round of `smart_sampling`; with `all_samples`, samples that are worked on at a time."""
    mcr_batch_size: int = field(default=10, validator=ge(1))
    """Most rubrics that one round of the selection adds."""
    min_increment_threshold: float = field(default=0.002, validator=ge(0))
    """Least coding rate, in nats, that a rubric must add to be chosen, and a round to count as one that added something."""
    patience: int = field(default=2, validator=ge(1))
    """The selection ends after so many rounds in a row that added nothing."""
    max_iterations: int = field(default=50, validator=ge(1))
    """Most rounds of the selection."""
    max_total_rubrics: int = field(default=200, validator=ge(1))
    """Most rubrics that are chosen."""
    aggregation_mode: Literal["keep_all", "merge_similar"] = "keep_all"
    """Make each chosen rubric a theme of its own, or sort them into a few themes."""
    merge_num_categories: int = field(default=2, validator=ge(1))
    """Most themes of `merge_similar`."""
    requests_per_answer: int = field(default=3, validator=ge(1))
    """The themes are shared out among so many requests, whose errors do not depend on each other; fewer themes take fewer."""
    combine: Literal["median", "mean"] = "median"
    """From the scores by each theme to that of the answer: `median` bears a wrong one among several."""
    grader_name: str = field(default="auto_grader", validator=matches_re(r"[\w.-]+"))
    """Names the grader, and the file that its rubrics are kept in."""
    num_reference_samples: int = field(default=20, validator=gt(0))
    """Samples that the rubrics are learnt from: the first of the training split. As many of the validation split check them."""
    query_field: str = "main_query"
    """Where a sample, and a task, holds the question: a field of the task, or a key of its metadata."""
    answer_field: str = "final_answer"
    """Where a workflow's output holds the answer, and a sample the answer that is labelled."""
    reference_field: str = "answer"
    """Where a sample holds the right answer; it is the example where there is no answer with a label."""
    label_field: str = "score"
    """Where a sample holds its label: a score, true or false, or a word such as `right` or `wrong`."""
    candidates_field: str = "candidates"
    """Where a sample holds several answers: a list of objects, each with its answer and its label or its rank."""
    rank_field: str = "rank"
    """Where a candidate holds its rank, 1 being the best."""
    input_data_type: Literal["dataset_file", "env_service", "huggingface_dat_repo"] = "dataset_file"
    """The reader of the samples."""
    dataset_file: Mapping[str, Any] = field(factory=dict)
    """Options of that reader, when it is this one."""
    env_service: Mapping[str, Any] = field(factory=dict)
    """Options of that reader, when it is this one."""
    huggingface_dat_repo: Mapping[str, Any] = field(factory=dict)
    """Options of that reader, when it is this one."""
    llm: Mapping[str, Any] = field(factory=dict)
    """How the LLM is asked: limits, prices, concurrency, cache."""
    embedding: Mapping[str, Any] = field(factory=dict)
    """How rubrics become vectors, by which the selection tells what is alike."""


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
