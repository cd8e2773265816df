"""Tasks from a data set of the Hugging Face hub, or from a local directory or file that its library reads."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs.validators import ge, min_len, optional

from astuner.builtin.task_rows import Row, tasks_of
from astuner.errors import DataError, PluginError
from astuner.protocols import RunInfo
from astuner.schema import Split, Task
from astuner_readers.json_values import as_json_value

_KEY = "astuner.task_reader.huggingface_dat_repo"
_BUILDERS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".json": "json", ".jsonl": "json", ".arrow": "arrow"}


class HuggingFaceReader:
    """Reads a data set through the library `datasets`; rows become tasks with unique ids as those of a JSON file do."""

    @frozen(kw_only=True)
    class Options:
        """Options of the reader `huggingface_dat_repo`."""

        dataset_path: str = field(validator=min_len(1))
        """A repository of the hub, or a local directory or file (csv, tsv, parquet, json, jsonl, arrow), relative to the YAML."""
        config_name: str | None = None
        """Which configuration, for a data set that has several, such as `main` of `openai/gsm8k`."""
        training_split: str | None = "train"
        """Which split is trained on; also a part of one, `train[:1000]`, when not streaming."""
        validation_split: str | None = "validation"
        """Which split is validated on; null for none."""
        columns: Mapping[str, str] = field(factory=dict)
        """Which column is which: field of a task, or name in its metadata → column of the data set."""
        revision: str | None = None
        """Branch, tag or commit of the repository."""
        streaming: bool = False
        """Fetch rows as they are read, instead of the whole data set before the first one."""
        limit: int | None = field(default=None, validator=optional(ge(1)))
        """Only the first so many rows of each split."""

    def __init__(self, options: Options, config_dir: Path) -> None:
        self._options = options
        local = config_dir / Path(options.dataset_path).expanduser()
        self._local = local.resolve() if local.exists() else None
        self._loaded: dict[str, Iterable[Mapping[str, Any]]] = {}
        _datasets()

    @classmethod
    def from_run(cls, options: Options, run_info: RunInfo) -> HuggingFaceReader:
        """Make the reader; a local path starts at the configuration's directory."""
        return cls(options, run_info.config_dir)

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split; nothing when it is null. Raises `DataError` at once for a split that there is not."""
        options = self._options
        name = options.training_split if split == "train" else options.validation_split
        if name is None:
            return iter(())
        if name not in self._loaded:
            self._loaded[name] = self._load(name, "training_split" if split == "train" else "validation_split")
        place = f"{options.dataset_path}:{name}"
        return tasks_of(partial(_rows, self._loaded[name], place), options.columns, options.limit)

    def _load(self, name: str, key: str) -> Iterable[Mapping[str, Any]]:
        datasets = _datasets()
        try:
            if self._local is not None and _is_saved(self._local):
                saved = datasets.load_from_disk(str(self._local))
                # A single data set that was saved has no splits, and so is the one that is trained on.
                splits: Mapping[str, Any] = saved if isinstance(saved, datasets.DatasetDict) else {"train": saved}
                return self._of(splits, name, key)
            return self._open(datasets, split=name)  # type: ignore[no-any-return]  # datasets is not typed
        except DataError:
            raise
        except Exception as error:
            splits_there = self._splits(datasets)
            if splits_there and not _exists(name, splits_there):
                raise _no_split(key, name, self._options.dataset_path, splits_there) from error
            where = f"'{self._options.dataset_path}' ({self._local or 'no local path, so a repository of the hub'})"
            raise DataError(f"{_KEY}.dataset_path: {where} cannot be loaded: {type(error).__name__}: {error}") from error

    def _open(self, datasets: Any, **more: Any) -> Any:
        options = self._options
        if self._local is not None and self._local.is_file():
            if self._local.suffix.lower() not in _BUILDERS:
                raise DataError(
                    f"{_KEY}.dataset_path: {self._local}: files ending in {', '.join(_BUILDERS)} are read, not this one"
                )
            separator = {"sep": "\t"} if self._local.suffix.lower() == ".tsv" else {}
            builder = _BUILDERS[self._local.suffix.lower()]
            return datasets.load_dataset(
                builder, data_files={"train": str(self._local)}, streaming=options.streaming, **separator, **more
            )
        path = str(self._local) if self._local is not None else options.dataset_path
        return datasets.load_dataset(path, options.config_name, revision=options.revision, streaming=options.streaming, **more)

    def _splits(self, datasets: Any) -> list[str]:
        """Return the names of the splits; none when the data set cannot be loaded at all."""
        if self._local is not None and self._local.is_file():
            return ["train"]
        try:
            path = str(self._local) if self._local is not None else self._options.dataset_path
            return list(datasets.get_dataset_split_names(path, self._options.config_name, revision=self._options.revision))
        except Exception:  # noqa: BLE001 - asked only to explain an error, which is then raised as it is
            return []

    def _of(self, splits: Mapping[str, Any], name: str, key: str) -> Iterable[Mapping[str, Any]]:
        if name not in splits:
            raise _no_split(key, name, self._options.dataset_path, list(splits))
        return splits[name]  # type: ignore[no-any-return]  # datasets is not typed


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise PluginError(
            f"reader 'huggingface_dat_repo' needs the package datasets ({error}): pip install \"astuner-readers[hf]\""
        ) from error
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    return datasets


def _rows(loaded: Iterable[Mapping[str, Any]], place: str) -> Iterator[Row]:
    for index, values in enumerate(loaded):
        where = f"{place}[{index}]"
        yield Row(where, {name: as_json_value(value, name, where) for name, value in values.items()})


def _is_saved(path: Path) -> bool:
    """Whether the directory is the work of `save_to_disk`, which `load_dataset` refuses."""
    return (path / "dataset_dict.json").is_file() or (path / "state.json").is_file()


def _exists(name: str, splits: list[str]) -> bool:
    return all(part.partition("[")[0].strip() in splits for part in name.split("+"))


def _no_split(key: str, name: str, dataset: str, splits: list[str]) -> DataError:
    return DataError(
        f"{_KEY}.{key}: '{dataset}' has no split '{name}'; there are: {', '.join(splits)}. Name one of them, or null"
    )
