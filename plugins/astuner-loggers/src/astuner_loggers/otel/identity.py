"""What a run, its traces and their spans are called: a resumed run sends the same episode under the same ids and times."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from astuner.contract.protocols import RunInfo
from astuner.runs.store.atomic import write_json

FILE = "otel/astuner.json"
"""In the run directory, where the other loggers keep the like."""


@define(eq=False)
class RunIdentity:
    """The id of a run and the times of its steps, on disk."""

    path: Path
    names: Mapping[str, str]
    """Project and experiment: a run with other ones is another run."""
    run_id: str
    ended_ns: dict[str, int] = field(factory=dict)
    """When each step, or validation, was first reported, nanoseconds since 1970."""

    @classmethod
    def open(cls, run_info: RunInfo, *, resumed: bool) -> RunIdentity:
        """Return the identity of the earlier attempt if the run is resumed, else a new one."""
        path = run_info.directory / FILE
        names = {"project": run_info.project_name, "experiment": run_info.experiment_name}
        if resumed and path.exists():
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if found["names"] == names:
                return cls(path=path, names=names, run_id=found["run_id"], ended_ns=found["ended_ns"])
        readable = re.sub(r"[^\w.-]+", "_", run_info.experiment_name)[:80]
        return cls(path=path, names=names, run_id=f"{readable}-{secrets.token_hex(4)}")

    def date(self, report: str, now_ns: int) -> int:
        """Return when a report was made for the first time, which is now unless an earlier attempt made it."""
        if report not in self.ended_ns:
            self.ended_ns[report] = now_ns
            self.save()
        return self.ended_ns[report]

    def save(self) -> None:
        """Write the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.path, {"names": dict(self.names), "run_id": self.run_id, "ended_ns": self.ended_ns})


def derive_trace_id(run_id: str, episode_id: str) -> int:
    """Return the id of an episode's trace, 128 bits."""
    return _digest(f"{run_id}\n{episode_id}", size=16)


def derive_span_id(trace_id: int, key: str) -> int:
    """Return the id of a span, 64 bits; `key` is unique in its trace."""
    return _digest(f"{trace_id:032x}\n{key}", size=8)


def _digest(text: str, size: int) -> int:
    # OpenTelemetry reserves 0.
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=size).digest()) or 1
