"""The run directory: its files, its lock, and what it says about the run."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from astuner.contract.errors import RunFailed, UsageError
from astuner.runs.store.atomic import write_text
from astuner.runs.store.record_files import read_config_record, read_record, write_record
from astuner.shared.private_files import DIRECTORY_MODE, find_stranger, make_private, make_private_directory, open_private

_FILES = ("run.json", "state.json", "config.yaml", "metrics.jsonl", "lock", "episodes/train.jsonl", "episodes/validation.jsonl")
_FOLDERS = ("episodes", "episodes/signal", "checkpoints", "logs", "tokenizer")


class RunDirectory:
    """`launcher_record/{experiment_name}/` of one run, locked by the process that runs it."""

    def __init__(self, path: Path) -> None:
        """Name the directory; nothing is touched before `open`."""
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self.episodes = path / "episodes"
        self.trained_tokens = self.episodes / "signal"
        self.checkpoints = path / "checkpoints"
        self.logs = path / "logs"
        self.tokenizer = path / "tokenizer"
        self.state_file = path / "state.json"
        self._run_file = path / "run.json"
        self._lock: IO[str] | None = None

    @property
    def holds_work(self) -> bool:
        """Whether an earlier run left work here: episodes or checkpoints."""
        return bool(self.list_saved_steps()) or any(path.stat().st_size for path in self.episodes.glob("*.jsonl"))

    @property
    def attempts(self) -> int:
        """How often this run was started."""
        return len(self.run.get("attempts", ()))

    @property
    def state(self) -> dict[str, Any]:
        """The state as last written: `status` (running, interrupted, failed, finished), `step`, `checkpoint`, `validations`."""
        return read_record(self.state_file, "the validations that choose the best checkpoint")

    @property
    def run(self) -> dict[str, Any]:
        """What `run.json` holds."""
        return read_record(self._run_file, "the versions, sources and attempts of earlier starts")

    def check_kinds(self, *, follows: bool = True) -> None:
        """Raise `UsageError` for anything but files and directories in their places; `follows` links, as only a reader may."""
        try:
            for names, wanted in ((_FOLDERS, "a directory"), (_FILES, "a file")):
                for path in (self.path / name for name in names):
                    if found := find_stranger(path, follows=follows, wanted=wanted):
                        raise UsageError(f"{path}: is {found}, and not {wanted} of the run; put that back, or delete it")
        except PermissionError as error:
            raise UsageError(f"{self.path}: cannot be read by this user; change its permissions") from error

    def open(self) -> None:
        """Make the directory and take its lock, which the system releases when this process ends, however it ends."""
        try:
            make_private_directory(self.path)
            self.check_kinds(follows=False)
            # An earlier version let others read.
            make_private(self.path)
            self.logs.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            self.checkpoints.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            lock = open_private(self.path / "lock", "a+", errors="replace")
        except OSError as error:
            raise RunFailed(
                f"{error.filename or self.path}: {error.strerror or error}, so the run has not started. Fix the cause "
                "(permissions, free space, a file in the way), or choose another experiment_dir"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            lock.close()
            raise UsageError(
                f"{self.path}: in use by process {holder}; wait for it, end it, or choose another experiment_name"
            ) from error
        lock.seek(0)
        lock.truncate()
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def close(self) -> None:
        """Release the lock, and take the access of others to what libraries have written."""
        if self._lock is not None:
            make_private(self.path)
            self._lock.close()
            self._lock = None

    def write_run(self, info: Mapping[str, Any]) -> None:
        """Write `run.json`, adding this start to the history."""
        attempts = [*self.run.get("attempts", []), {"started": _now(), "pid": os.getpid(), "host": socket.gethostname()}]
        write_record(self._run_file, {**info, "attempts": attempts})

    def amend_run(self, **more: Any) -> None:
        """Add to `run.json` what is only known later."""
        write_record(self._run_file, {**self.run, **more})

    def write_config(
        self,
        *,
        given: str,
        resolved: str,
        native: Mapping[str, Any],
        environment: Mapping[str, str] | None = None,
        relative_to: Path | None = None,
    ) -> None:
        """Write `config.yaml`: as given, as resolved, and natively for the backbone. Secrets are already removed.

        `environment` has the signatures of the values that came from environment variables, by key; `relative_to` is the
        directory that relative paths started from.
        """
        import yaml

        document = {"given": given, "resolved": yaml.safe_load(resolved), "native": dict(native)}
        document["environment"] = dict(environment or {})
        document["relative_to"] = str(relative_to) if relative_to is not None else None
        write_text(self.path / "config.yaml", yaml.safe_dump(document, sort_keys=False, allow_unicode=True))

    def read_config(self) -> Mapping[str, Any] | None:
        """Return what `write_config` wrote at the last start; None without the file: that start got no further than its lock.

        Raises `UsageError` naming the file and the place of the damage.
        """
        return read_config_record(self.path / "config.yaml")

    def write_state(self, **changes: Any) -> None:
        """Change some of the state, atomically. A `reason` is that of one status: with another one it goes."""
        kept = {name: value for name, value in self.state.items() if name != "reason" or "status" not in changes}
        write_record(self.state_file, {**kept, **changes, "written": _now()})

    def checkpoint(self, step: int) -> Path:
        """Return the directory of a checkpoint."""
        return self.checkpoints / f"step_{step}"

    def list_saved_steps(self) -> Sequence[int]:
        """Return the steps of the complete checkpoints, ascending. One being written has another name until it is complete."""
        found = (path.name.removeprefix("step_") for path in self.checkpoints.glob("step_*") if path.is_dir())
        return sorted(int(name) for name in found if name.isdigit())


def get_throwaway_directory(path: Path, backbone: str) -> Path:
    """Return the directory for a backbone's throwaway runs, next to the run directory of its experiment."""
    return path.with_name(f"{path.name}.{backbone.replace('/', '_')}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
