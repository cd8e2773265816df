"""Tasks from a data set of the Hugging Face hub, or from a local directory or file that `datasets` reads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from astuner.contract.errors import DataError, PluginError
from astuner.contract.protocols import ReaderTraits, RunInfo
from astuner.contract.schema import Split, Task
from astuner.shared.install_hints import install_command
from astuner.shared.tabular import Row, convert_to_json, make_tasks, parse_json_columns
from astuner_readers.hub import HubCopy, locate
from astuner_readers.huggingface_options import HuggingFaceOptions
from astuner_readers.json_files import open_json_splits
from astuner_readers.split_slices import PartsOfStreams, SplitPart, split_parts

_KEY = "astuner.task_reader.huggingface_dat_repo"
_BUILDERS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".json": "json", ".jsonl": "json", ".arrow": "arrow"}

Rows = Iterable[Mapping[str, Any]]


class HuggingFaceReader:
    """Reads a data set through the library `datasets`; rows become tasks with unique ids, as for a JSON file."""

    traits = ReaderTraits(lists_files=True, lists_revisions=True)

    Options = HuggingFaceOptions

    def __init__(self, options: HuggingFaceOptions, config_dir: Path) -> None:
        self._options = options
        local = config_dir / Path(options.dataset_path).expanduser()
        self._local = local.resolve() if local.exists() else None
        if self._local is None and _is_path(options.dataset_path):
            raise DataError(f"{_KEY}.dataset_path: {local.absolute()} does not exist; relative paths start at {config_dir}")
        if self._local is not None:
            _check_has_effect(options, self._local)
        self._copy: HubCopy | None = None
        self._loaded: dict[str, Rows] = {}
        _datasets()

    @classmethod
    def from_run(cls, options: HuggingFaceOptions, run_info: RunInfo) -> HuggingFaceReader:
        """Make the reader; a local path starts at the configuration's directory."""
        return cls(options, run_info.config_dir)

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split; nothing if it is null. Raises `DataError` at once for a split that does not exist."""
        options = self._options
        name = options.training_split if split == "train" else options.validation_split
        if name is None:
            return iter(())
        if name not in self._loaded:
            self._loaded[name] = self._load(name, "training_split" if split == "train" else "validation_split")
        rows = partial(_rows, self._loaded[name], f"{options.dataset_path}:{name}", options.json_columns)
        return make_tasks(
            rows, options.columns, options.limit, default_query=options.default_query, keep_repeats=options.keep_repeats
        )

    def list_files(self) -> Iterator[Path]:
        """Yield the files of a local data set."""
        if self._local is not None:
            yield from (self._local,) if self._local.is_file() else filter(Path.is_file, self._local.rglob("*"))

    def list_revisions(self) -> Mapping[str, str]:
        """Return the commit of a repository of the hub; a cached copy is in a folder of that name."""
        if self._copy is None or self._local is not None:
            return {}
        return {self._options.dataset_path: self._copy.revision or Path(self._copy.path).name}

    def _load(self, name: str, key: str) -> Rows:
        datasets = _datasets()
        try:
            if self._local is not None and _is_saved(self._local):
                return _select_part(datasets, self._load_saved(datasets), name)
            written = open_json_splits(datasets, self._open(datasets.load_dataset_builder), streaming=self._options.streaming)
            if self._options.streaming:
                return self._stream(written or self._open(datasets.load_dataset, streaming=True), name, key)
            if written is not None:
                return _select_part(datasets, written, name)
            return self._open(datasets.load_dataset, split=name)  # type: ignore[no-any-return]  # datasets is not typed
        except DataError:
            raise
        except Exception as error:
            self._explain(datasets, name, key, error)
            where = f"'{self._options.dataset_path}' ({self._local or 'no local path, so a repository of the hub'})"
            raise DataError(f"{_KEY}.dataset_path: {where} cannot be loaded: {type(error).__name__}: {error}") from error

    def _load_saved(self, datasets: Any) -> Mapping[str, Any]:
        saved = datasets.load_from_disk(str(self._local))
        # A single saved data set has no splits: it is the training split.
        return saved if isinstance(saved, datasets.DatasetDict) else {"train": saved}

    def _stream(self, whole: Mapping[str, Any], name: str, key: str) -> Rows:
        parts = split_parts(name)
        if parts is None:
            raise DataError(
                f"{_KEY}.{key}: '{name}' cannot be streamed: a part of a stream is train[100:200], counted from its beginning. "
                "Write it so, or set streaming to false"
            )
        for part in parts:
            if part.name not in whole:
                raise _build_missing_split_error(key, part.name, self._options.dataset_path, list(whole))
        return PartsOfStreams((part, whole[part.name]) for part in parts)

    def _open(self, load: Callable[..., Any], **more: Any) -> Any:
        options = self._options
        if self._local is not None and self._local.is_file():
            if self._local.suffix.lower() not in _BUILDERS:
                raise DataError(
                    f"{_KEY}.dataset_path: {self._local}: files ending in {', '.join(_BUILDERS)} are read, not this one"
                )
            separator = {"sep": "\t"} if self._local.suffix.lower() == ".tsv" else {}
            builder = _BUILDERS[self._local.suffix.lower()]
            return load(builder, data_files={"train": str(self._local)}, **separator, **more)
        copy = self._locate()
        if copy.data_files is not None:
            return load(copy.path, data_files=copy.data_files, **more)
        return load(copy.path, options.config_name, revision=copy.revision, **more)

    def _locate(self) -> HubCopy:
        if self._copy is None:
            options = self._options
            if self._local is not None:
                self._copy = HubCopy(path=str(self._local))
            else:
                self._copy = locate(options.dataset_path, options.config_name, options.revision, _KEY)
        return self._copy

    def _explain(self, datasets: Any, name: str, key: str, error: Exception) -> None:
        """Raise the known cause of a library error: a configuration or a split that does not exist."""
        try:
            splits = self._splits(datasets)
        except Exception:  # noqa: BLE001 - asked only to explain an error, which is then raised as it is
            self._explain_configuration(datasets, error)
            return
        if not all(part.partition("[")[0].strip() in splits for part in name.split("+")):
            raise _build_missing_split_error(key, name, self._options.dataset_path, splits) from error

    def _splits(self, datasets: Any) -> list[str]:
        if self._local is not None and self._local.is_file():
            return ["train"]
        if self._local is not None and _is_saved(self._local):
            return list(self._load_saved(datasets))
        copy = self._locate()
        if copy.data_files is not None:
            return list(copy.data_files)
        return list(datasets.get_dataset_split_names(copy.path, self._options.config_name, revision=copy.revision))

    def _explain_configuration(self, datasets: Any, error: Exception) -> None:
        copy, config_name = self._locate(), self._options.config_name
        try:
            configs = datasets.get_dataset_config_names(copy.path, revision=copy.revision)
        except Exception:  # noqa: BLE001 - as above
            return
        if config_name in configs or len(configs) < 2:
            return
        said = f"no configuration '{config_name}'" if config_name else "several configurations, and none is chosen"
        raise DataError(
            f"{_KEY}.config_name: '{self._options.dataset_path}' has {said}; there are: {', '.join(configs)}"
        ) from error


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise PluginError(
            f"reader 'huggingface_dat_repo' needs the package datasets ({error}): {install_command('astuner-readers[hf]')}"
        ) from error
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    return datasets


def _rows(loaded: Rows, place: str, json_columns: tuple[str, ...]) -> Iterator[Row]:
    rows = _plain_rows(loaded, place)
    return parse_json_columns(rows, json_columns) if json_columns else rows


def _plain_rows(loaded: Rows, place: str) -> Iterator[Row]:
    index, source = 0, iter(loaded)
    while True:
        where = f"{place}[{index}]"
        try:
            values = next(source, None)
        except Exception as error:
            # A network failure in a stream, a truncated file, an image that needs a library.
            raise DataError(f"{where}: the row cannot be read: {type(error).__name__}: {error}") from error
        if values is None:
            return
        yield Row(where, {name: convert_to_json(value, name, where) for name, value in values.items()})
        index += 1


def _is_path(text: str) -> bool:
    """Whether a text must be a local path: a repository is `name` or `owner/name`."""
    return text.startswith((".", "/", "~")) or text.count("/") > 1 or Path(text).suffix.lower() in _BUILDERS


def _is_saved(path: Path) -> bool:
    """Whether `save_to_disk` wrote the directory, which `load_dataset` refuses."""
    return (path / "dataset_dict.json").is_file() or (path / "state.json").is_file()


def _check_has_effect(options: HuggingFaceOptions, local: Path) -> None:
    """Raise `DataError` for options that do not apply to a local path."""
    saved = _is_saved(local)
    idle = {
        "revision": options.revision is not None,
        "config_name": options.config_name is not None and (saved or local.is_file()),
        "streaming": options.streaming and saved,
    }
    names = [name for name, is_idle in idle.items() if is_idle]
    if names:
        what = "was written by save_to_disk" if saved else "is a file" if local.is_file() else "is a local directory"
        raise DataError(f"{_KEY}.{names[0]}: {local} {what}, of which {' and '.join(names)} would say nothing; remove it")


def _select_part(datasets: Any, splits: Mapping[str, Any], name: str) -> Rows:
    """Return a split, or the parts that the name asks for, counted as by `load_dataset`."""
    if name in splits:
        return splits[name]  # type: ignore[no-any-return]  # datasets is not typed
    parts = datasets.ReadInstruction.from_spec(name).to_absolute({split: len(rows) for split, rows in splits.items()})
    return PartsOfStreams((SplitPart(part.splitname, part.from_, part.to), splits[part.splitname]) for part in parts)


def _build_missing_split_error(key: str, name: str, dataset: str, splits: list[str]) -> DataError:
    return DataError(
        f"{_KEY}.{key}: '{dataset}' has no split '{name}'; there are: {', '.join(splits)}. Name one of them, or null"
    )
