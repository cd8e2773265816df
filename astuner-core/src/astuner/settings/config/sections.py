"""Options of core's own components that are checked when a configuration is loaded, and the names that sections may have."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen
from attrs.validators import ge, optional


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
    """Read only the first N rows."""
    default_query: str | None = None
    """The query of rows that have none, for workflows that make their own of the other columns."""
    keep_repeats: bool = False
    """Keep a row that repeats another one and has no id; False refuses it. Its id then has its position in it."""


@frozen(kw_only=True)
class DatasetFileSection:
    """Options of the reader `dataset_file`."""

    training: FileSplit | None = None
    validation: FileSplit | None = None


TRACKERS = ("timeline", "linear", "sliding_window", "auto_context", "linear_think")
"""Core's own trackers."""

COMPONENT_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "task_reader": ("reader",),
    "task_judge": ("judge",),
    "context_tracker": ("tracker",),
    "environment": ("environment",),
    "rollout": ("engine",),
    "sandbox": ("sandbox",),
    "trainer_common.algorithm": ("loss", "estimator"),
    "data": ("sampler",),
}
"""The sections that hold options under the names of components, and the kinds of these."""

COMPONENT_KEYS: Mapping[str, str] = {
    "backbone": "backbone",
    "task_reader.type": "reader",
    "task_judge.judge_type": "judge",
    "task_judge.judge_protocol": "judge",
    "context_tracker.context_tracker_type": "tracker",
    "environment.environment_type": "environment",
    "rollout.name": "engine",
    "sandbox.type": "sandbox",
    "trainer_common.algorithm.adv_estimator": "estimator",
    "trainer_common.algorithm.policy_loss": "loss",
    "data.sampler": "sampler",
}
"""The keys that name one component, and the kind of it."""

ALTERNATIVES: Mapping[str, tuple[str, ...]] = {
    "task_reader": ("astuner.readers",),
    "task_judge": ("astuner.judges",),
    "trainer_common.algorithm": ("astuner.losses", "astuner.estimators"),
    "data": ("astuner.samplers",),
}
"""The sections in which a file may keep the options of components that it does not choose, and their entry-point groups."""


def list_installed_names(group: str) -> frozenset[str]:
    """Return the names of the components of a group; nothing is imported."""
    from importlib.metadata import entry_points

    return frozenset(point.name for point in entry_points(group=group))
