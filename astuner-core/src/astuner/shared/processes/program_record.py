"""The record of a started program, one JSON file each, so that other processes can find it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attrs import asdict, field, fields_dict, frozen

from astuner.shared.private_files import make_private_directory, open_private

if TYPE_CHECKING:
    import cattrs

Kind = Literal["run", "service", "server"]
STATE_VARIABLE = "ASTUNER_STATE_DIR"


@frozen(kw_only=True)
class Lease:
    """A program outlives its starter, for later users."""

    idle_s: float | None
    """It is ended after `idle_s` seconds without a user; None keeps it until it is stopped."""


@frozen(kw_only=True)
class ProgramRecord:
    """A started program, as recorded on disk."""

    id: str
    kind: Kind
    name: str
    pid: int
    """Of the run itself; of a service or server the guard, which leads the session."""
    born: float
    """When the process of that pid began, in seconds since the epoch: detects a reused pid."""
    program: int | None = None
    """The pid of the program below the guard; None for a run."""
    command: tuple[str, ...]
    """As it was started, without secrets."""
    directory: str | None = None
    """The run directory that it belongs to."""
    log: str | None = None
    log_start: int = 0
    """Where in the log the output of this program begins."""
    started: str
    """ISO time."""
    port: int | None = None
    url: str | None = None
    lease: Lease | None = None
    facts: Mapping[str, Any] = field(factory=dict)
    """Facts that distinguish it from others of its kind."""

    @property
    def what(self) -> str:
        """The kind and the name, as in `service 'web'`."""
        return f"{self.kind} '{self.name}'"


@frozen(kw_only=True)
class RecordFiles:
    """The files of one program in the state directory."""

    record: Path
    lease: Path
    """Touched by whoever uses a leased program."""
    ended: Path
    """Written by the guard: the exit status, and why."""

    @classmethod
    def of(cls, program: str) -> RecordFiles:
        """Name the files of the program with this id."""
        base = records_directory()
        return cls(record=base / f"{program}.json", lease=base / f"{program}.lease", ended=base / f"{program}.ended")

    def remove(self) -> None:
        """Remove the program's files."""
        for path in (self.record, self.lease, self.ended):
            with suppress(OSError):
                path.unlink()


def state_directory() -> Path:
    """Return the directory for what outlives a run: `$ASTUNER_STATE_DIR`, else the user's state directory."""
    if given := os.environ.get(STATE_VARIABLE):
        return Path(given).expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "astuner"


def records_directory() -> Path:
    """Return the directory of this machine's records; a home directory may be shared by several machines."""
    return state_directory() / "programs" / socket.gethostname()


def write_record(started: ProgramRecord) -> None:
    """Write a record, whole or not at all, readable by its user alone."""
    path = RecordFiles.of(started.id).record
    make_private_directory(path.parent)
    part = path.with_name(f".{path.name}.part")
    with open_private(part, "w") as file:
        file.write(json.dumps(asdict(started), ensure_ascii=False))
    part.replace(path)


def read_record(path: Path) -> ProgramRecord | None:
    """Return the record in a file, or None if it is not a record, incomplete or missing."""
    from astuner.settings.config.structure_errors import FaultsError

    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        # Other keys were written by a later version.
        known = {key: data[key] for key in fields_dict(ProgramRecord) if key in data}
        record = _make_converter().structure(known, ProgramRecord)
    except (OSError, ValueError, TypeError, RecursionError, FaultsError):
        return None
    return record if record.id == path.stem and record.pid > 0 else None


@cache
def _make_converter() -> cattrs.Converter:
    from astuner.settings.config.structuring import make_converter

    return make_converter()
