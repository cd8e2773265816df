"""How a run ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from astuner.contract.schema import Group


@frozen(kw_only=True)
class RunOutcome:
    """How a run ended."""

    exit_code: int
    directory: Path
    before: Mapping[str, float] | None
    """Metrics of the validation before training, if there was one."""
    after: Mapping[str, float] | None
    """Metrics of the last validation."""
    before_groups: tuple[Group, ...] = ()
    after_groups: tuple[Group, ...] = ()
    story: tuple[str, ...] = ()
    """How the run went, line by line."""
    viewers: tuple[str, ...] = ()
    """Commands that show what the loggers have written, typed where the run was started."""
    run_viewers: tuple[str, ...] = ()
    """Commands of plugins that show this run: its directory is typed after them."""

    def format_end(self) -> str:
        """Return what is shown when the run is over."""
        return "\n".join((f"done: {self.directory}", *(f"  {line}" for line in self.story)))
