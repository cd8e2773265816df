"""The run directory: its files, its lock, and what it says about the run."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from astuner.errors import UsageError
from astuner.private_files import DIRECTORY_MODE, make_private, make_private_directory, open_private
from astuner.runs.atomic import explain_os_errors, write_json, write_text


class RunDirectory:
    """`launcher_record/{experiment_name}/` of one run, locked by the process that runs it."""

    def __init__(self, path: Path) -> None:
        """Name the directory; nothing is touched before `open`."""
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self.episodes = path / "episodes"
        self.checkpoints = path / "checkpoints"
        self.logs = path / "logs"
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
        return len(self.run.get("attempts", []))

    @property
    def state(self) -> dict[str, Any]:
        """The state as last written: `status` (running, interrupted, failed, finished), `step`, `checkpoint`, `validations`."""
        return _read_json(self.state_file)

    @property
    def run(self) -> dict[str, Any]:
        """What `run.json` holds."""
        return _read_json(self._run_file)

    def open(self) -> None:
        """Make the directory and take its lock, which the system releases when this process ends, however it ends."""
        with explain_os_errors(self.path):
            make_private_directory(self.path)
            # An earlier version let others read.
            make_private(self.path)
            self.logs.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            self.checkpoints.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            lock = open_private(self.path / "lock", "a+")
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
        attempts = [*self.run.get("attempts", []), {"started": _now(), "pid": os.getpid()}]
        write_json(self._run_file, {**info, "attempts": attempts})

    def amend_run(self, **more: Any) -> None:
        """Add to `run.json` what is only known later."""
        write_json(self._run_file, {**self.run, **more})

    def write_config(
        self, *, given: str, resolved: str, native: Mapping[str, Any], environment: Mapping[str, str] | None = None
    ) -> None:
        """Write `config.yaml`: as given, as resolved, and natively for the backbone. Secrets are already removed.

        `environment` has the signatures of the values that came from environment variables, by key.
        """
        import yaml

        document = {"given": given, "resolved": yaml.safe_load(resolved), "native": dict(native)}
        document["environment"] = dict(environment or {})
        write_text(self.path / "config.yaml", yaml.safe_dump(document, sort_keys=False, allow_unicode=True))

    def write_state(self, **changes: Any) -> None:
        """Change some of the state, atomically. A `reason` is that of one status: with another one it goes."""
        kept = {name: value for name, value in self.state.items() if name != "reason" or "status" not in changes}
        write_json(self.state_file, {**kept, **changes, "written": _now()})

    def checkpoint(self, step: int) -> Path:
        """Return the directory of a checkpoint."""
        return self.checkpoints / f"step_{step}"

    def list_saved_steps(self) -> Sequence[int]:
        """Return the steps of the complete checkpoints, ascending. One being written has another name until it is complete."""
        found = (path.name.removeprefix("step_") for path in self.checkpoints.glob("step_*"))
        return sorted(int(name) for name in found if name.isdigit())


def get_throwaway_directory(path: Path, backbone: str) -> Path:
    """Return the directory for a backbone's throwaway runs, next to the run directory of its experiment."""
    return path.with_name(f"{path.name}.{backbone.replace('/', '_')}")


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
