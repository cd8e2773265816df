"""The rows of JSON files with the values that are written there.

`datasets` infers a type for each column of them, so that `"2024-01-01"` becomes a time wherever all its neighbours look like
one, and `1` beside `0.5` becomes `1.0`: the right answer of a task would depend on the other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

from attrs import define, field, frozen

from astuner.contract.errors import DataError
from astuner.shared.tabular import parse_json, read_json_rows


@frozen
class RemoteFile:
    """A file of the hub, read as it comes; has what is needed of a path."""

    url: str

    def open(self, mode: str = "r", **how: Any) -> Any:
        """Open the file, decompressed."""
        import fsspec

        return fsspec.open(self.url, mode, compression="infer", **how).open()

    def __str__(self) -> str:
        """Return the name for messages."""
        return self.url


@define(eq=False)
class JsonRows:
    """The rows of a split; each iteration starts from the beginning."""

    _files: Sequence[Path | RemoteFile]
    _field: str | None
    """Where the rows are in a file that holds one object."""
    _length: int | None = field(default=None, init=False)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Yield the rows."""
        return chain.from_iterable(map(self._read, self._files))

    def __len__(self) -> int:
        """Count the rows, once."""
        if self._length is None:
            self._length = sum(1 for _ in self)
        return self._length

    def skip(self, count: int) -> Iterator[Mapping[str, Any]]:
        """Yield the rows after the first ones."""
        return islice(self, count, None)

    def _read(self, file: Path | RemoteFile) -> Iterator[Mapping[str, Any]]:
        if self._field is not None:
            return iter(_list_rows(file, _read_object(file).get(self._field)))
        rows = (row.values for row in read_json_rows(cast("Path", file)))
        try:
            return chain(list(islice(rows, 1)), rows)
        except DataError:
            # One object over many lines, or else a broken row.
            columns = _read_object(file)
            if not columns:
                raise
            return iter(_list_rows(file, columns))


def open_json_splits(datasets: Any, builder: Any, *, streaming: bool) -> Mapping[str, JsonRows] | None:
    """Return the splits of a data set of JSON files, by name; None for files of another kind."""
    if type(builder).__module__ != "datasets.packaged_modules.json.json":
        return None
    found = {}
    for name, urls in builder.config.data_files.items():
        files: list[Path | RemoteFile] = [RemoteFile(url) for url in urls]
        if not streaming:
            manager = datasets.DownloadManager()
            files = [Path(path) for path in manager.iter_files(manager.download_and_extract(list(urls)))]
        found[str(name)] = JsonRows(files, builder.config.field)
    return found


def _read_object(file: Path | RemoteFile) -> Mapping[str, Any]:
    """Return the object that a whole file is; an empty one if it is something else."""
    with file.open("rb") as opened:
        try:
            found = parse_json(opened.read().decode("utf-8-sig"))
        except ValueError:
            return {}
    return found if isinstance(found, dict) else {}


def _list_rows(file: Path | RemoteFile, value: Any) -> Sequence[Mapping[str, Any]]:
    """Return rows that are listed one by one, or column by column."""
    if isinstance(value, dict) and all(isinstance(cells, list) for cells in value.values()):
        return [dict(zip(value, cells, strict=True)) for cells in zip(*value.values(), strict=True)]
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise DataError(f"{file}: the rows must be a list of objects, or an object of columns, which are lists of one length")
    return value
