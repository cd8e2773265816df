"""The options of the reader `huggingface_dat_repo`."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen
from attrs.validators import ge, min_len, optional


@frozen(kw_only=True)
class HuggingFaceOptions:
    """Options of the reader `huggingface_dat_repo`."""

    dataset_path: str = field(validator=min_len(1))
    """A repository of the hub, or a local directory or file (csv, tsv, parquet, json, jsonl, arrow), relative to the YAML."""
    config_name: str | None = None
    """The configuration of a data set with several, such as `main` of `openai/gsm8k`."""
    training_split: str | None = "train"
    """The training split; also a part of one, `train[:1000]`, or several, `train+test`."""
    validation_split: str | None = "validation"
    """The validation split; null for none."""
    columns: Mapping[str, str] = field(factory=dict)
    """Which column is which: field of a task, or name in its metadata → column of the data set."""
    json_columns: tuple[str, ...] = ()
    """Columns of text to parse as JSON."""
    revision: str | None = None
    """Branch, tag or commit of the repository."""
    streaming: bool = False
    """Fetch rows as they are read, instead of the whole data set before the first one."""
    limit: int | None = field(default=None, validator=optional(ge(1)))
    """Read only the first N rows of each split."""
    default_query: str | None = None
    """The query of rows that have none, for workflows that make their own of the other columns."""
    keep_repeats: bool = False
    """Keep a row that repeats another one and has no id; False refuses it. Its id then has its position in it."""
