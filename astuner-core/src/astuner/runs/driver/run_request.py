"""What a run is asked for: the options of `astuner run` and `astuner eval`, and of `astuner.run` and `astuner.evaluate`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from attrs import frozen

from astuner.contract.protocols import Logger


@frozen(kw_only=True)
class RunRequest:
    """The options of a run. A new one is a field here, and an option of this name in `cli/run.py`."""

    conf: Path
    backbone: str | None = None
    """Overrides the YAML's."""
    overrides: Sequence[str] = ()
    """As `--set` takes them."""
    resume: bool = False
    resume_from: str | None = None
    """Continues from a step, `best` or `last`."""
    accept_changes: Collection[str] = ()
    """Kinds of what may have changed since (`driver.source_changes.KINDS`)."""
    fresh: bool = False
    """Restarts servers that an earlier run has kept."""
    stop_at: Sequence[str] = ()
    """Tags of breakpoints, as `--db` takes them."""
    services: Sequence[str] = ()
    """Names of services, as `--with` takes them."""
    loggers: Sequence[Logger] = ()
    """Besides those of the YAML."""

    @property
    def resumes(self) -> bool:
        """Whether an earlier attempt is continued."""
        return self.resume or self.resume_from is not None
