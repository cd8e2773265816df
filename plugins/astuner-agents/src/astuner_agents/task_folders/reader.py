"""The reader `harbor`: a task for each task folder below a directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from attrs import asdict, field, frozen
from attrs.validators import ge, min_len, optional

from astuner.contract.errors import DataError
from astuner.contract.protocols import ReaderTraits, RunInfo
from astuner.contract.schema import Split, Task
from astuner.settings.config.paths import resolve_path
from astuner_agents.task_folders import harbor_format, terminal_bench_format
from astuner_agents.task_folders.folder import TaskFolder
from astuner_agents.task_folders.harbor_format import read_harbor
from astuner_agents.task_folders.terminal_bench_format import read_terminal_bench

KEY = "astuner.task_reader.harbor"
METADATA_KEY = "harbor"
FORMATS = {harbor_format.MARK: read_harbor, terminal_bench_format.MARK: read_terminal_bench}
"""By the file that marks a folder of the format."""


@frozen(kw_only=True)
class FolderSplit:
    """The folders of a split."""

    path: str = field(validator=min_len(1))
    """A task folder, or a directory with task folders at any depth; relative to the YAML."""
    include: tuple[str, ...] = ()
    """Only folders whose path below `path` matches one of these patterns, as in `git-*`; by default all."""
    exclude: tuple[str, ...] = ()
    """No folders whose path below `path` matches one of these."""
    limit: int | None = field(default=None, validator=optional(ge(1)))
    """Only the first N folders."""


class TaskFolderReader:
    """Reads the folders in the order of their paths, each when its turn comes; the path is the task's id."""

    traits = ReaderTraits(command_workflow="astuner_agents.harbor:TaskFolderWorkflow", lists_files=True)

    @frozen(kw_only=True)
    class Options:
        """Options of the reader `harbor`."""

        training: FolderSplit
        """The training tasks."""
        validation: FolderSplit | None = None
        """The validation tasks; null for none."""

    def __init__(self, options: Options, config_dir: Path) -> None:
        """Find the folders. Raises `DataError` if there are none."""
        self._folders: dict[Split, list[tuple[str, Path]]] = {"train": _find_folders(options.training, config_dir, "training")}
        if options.validation is not None:
            self._folders["validation"] = _find_folders(options.validation, config_dir, "validation")

    @classmethod
    def from_run(cls, options: Options, run_info: RunInfo) -> TaskFolderReader:
        """Make the reader; paths start at the configuration's directory.

        Raises `DataError` for tasks that cannot be played in the sandboxes of the run, if it plays them.
        """
        from astuner_agents.task_folders.playing.checks import check_playable, find_sandboxes

        reader = cls(options, run_info.config_dir)
        sandboxes = find_sandboxes(run_info)
        if sandboxes is not None:
            check_playable(reader.list_folders(), sandboxes)
        return reader

    def list_folders(self) -> Iterator[TaskFolder]:
        """Yield the folders of all splits that can be read."""
        for folders in self._folders.values():
            for _, directory in folders:
                # What is wrong with it is raised when its turn comes.
                with suppress(DataError):
                    yield read_folder(directory)

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split. Raises `DataError` for a folder that does not fit, naming the file and the key."""
        for name, directory in self._folders.get(split, ()):
            folder = read_folder(directory)
            yield Task(main_query=folder.instruction, task_id=name, metadata={METADATA_KEY: _describe(folder)})

    def list_files(self) -> Iterator[Path]:
        """Yield the files that describe the tasks."""
        for folders in self._folders.values():
            for _, directory in folders:
                yield from (directory / name for name in (*FORMATS, "instruction.md") if (directory / name).is_file())


def read_folder(directory: Path) -> TaskFolder:
    """Read a task folder of either format; Harbor's goes first where a folder has both."""
    for mark, read in FORMATS.items():
        if (directory / mark).is_file():
            return read(directory)
    raise DataError(f"{directory} has no {' or '.join(FORMATS)}: it is not a task folder")


def _find_folders(split: FolderSplit, config_dir: Path, name: str) -> list[tuple[str, Path]]:
    root = resolve_path(split.path, config_dir)
    if not root.is_dir():
        raise DataError(f"{KEY}.{name}.path: {root} is not a directory; name a task folder, or a directory of them")
    found = sorted({file.parent for mark in FORMATS for file in root.rglob(mark)}, key=lambda folder: folder.parts)
    # A task's own files may hold another task.yaml.
    tops = [folder for folder in found if not any(parent in found for parent in folder.parents)]
    named = [(folder.relative_to(root).as_posix() if folder != root else root.name, folder) for folder in tops]
    chosen = [(path, folder) for path, folder in named if _is_chosen(path, split)]
    if not chosen:
        patterns = " that `include` and `exclude` leave" if named else f" with a {' or '.join(FORMATS)}"
        raise DataError(f"{KEY}.{name}: {root} has no task folder{patterns}")
    return chosen[: split.limit]


def _is_chosen(path: str, split: FolderSplit) -> bool:
    return (not split.include or any(fnmatchcase(path, pattern) for pattern in split.include)) and not any(
        fnmatchcase(path, pattern) for pattern in split.exclude
    )


def _describe(folder: TaskFolder) -> dict[str, Any]:
    """Return what a workflow or a judge needs: everything but the instruction, which is the task's query."""
    return {name: value for name, value in asdict(folder).items() if name != "instruction"}
