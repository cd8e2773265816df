"""What was written to a tracked run, on disk: a resumed run continues the same one without repeating anything."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, define, field

FILE = "astuner.json"


@define(eq=False)
class Ledger:
    """The last written step of each name."""

    identity: Mapping[str, str]
    """Project, experiment and place of the tracked run."""
    run_id: str | None = None
    rows: int = 0
    last: dict[str, int] = field(factory=dict)

    @classmethod
    def read(cls, directory: Path, identity: Mapping[str, str]) -> Ledger:
        """Return the ledger of an earlier attempt at the same run; an empty one if there is none."""
        path = directory / FILE
        if not path.exists():
            return cls(identity=identity)
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cls(**found) if found["identity"] == identity else cls(identity=identity)

    def write(self, directory: Path) -> None:
        """Write it, whole or not at all."""
        directory.mkdir(parents=True, exist_ok=True)
        half = directory / f"{FILE}.tmp"
        half.write_text(json.dumps(asdict(self)), encoding="utf-8")
        os.replace(half, directory / FILE)

    def note(self, step: int, names: Iterable[str]) -> None:
        """Record that these were written."""
        self.rows += 1
        for name in names:
            self.last[name] = max(step, self.last.get(name, step))

    def forget_after(self, step: int) -> None:
        """Drop later steps."""
        self.last = {name: min(last, step) for name, last in self.last.items()}
