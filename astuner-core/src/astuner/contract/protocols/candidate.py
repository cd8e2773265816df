"""A component that could be loaded, as hooks and the makers of components receive it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from attrs import frozen


@frozen(kw_only=True)
class Candidate:
    """A component that could be loaded. Picklable: a worker loads the same one from it."""

    kind: str
    """In the singular, as in `judge`."""
    name: str
    """The entry point's name, or the path as the user wrote it."""
    target: str
    """`package.module:Class`, or `/absolute/file.py:Class`."""
    dist: str | None = None
    """The distribution that offers it; None for a path."""
    version: str | None = None
    core_requirement: str | None = None
    """The range of astuner-core that the distribution was made for."""
    missing: tuple[str, ...] = ()
    """What the distribution, or the extra for this component, needs but does not find."""
    remedy: str | None = None
    """The command that installs what is missing."""
    shows_runs: bool = False
    """Of a command: whether it shows a run, given its directory."""
    source: Literal["entry_point", "path"] = "entry_point"
    config_dir: Path | None = None
    """Of a path: the directory that is put on `sys.path` when it is loaded."""

    @property
    def provider(self) -> str:
        """The distribution and its version, or the path of the code."""
        return f"{self.dist} {self.version}" if self.dist else self.target

    @property
    def full_name(self) -> str:
        """The name with its distribution, which chooses between two of one name."""
        return f"{self.dist}/{self.name}"

    @property
    def lack(self) -> str | None:
        """What it needs and does not find, with the remedy; None if nothing is missing."""
        return f"{self.blame} needs {', '.join(self.missing)}, which is not installed: {self.remedy}" if self.missing else None

    @property
    def blame(self) -> str:
        """How messages about this component begin: `judge 'strict' from acme-judges 1.2.0 (acme_judges.strict:Strict)`."""
        origin = f" from {self.dist} {self.version}" if self.dist else ""
        return f"{self.kind} '{self.name}'{origin} ({self.target})"
