"""The virtual environment of a backbone whose libraries exclude those of its users."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from attrs import frozen


@frozen(kw_only=True)
class VenvState:
    """The state of a backbone's environment."""

    backbone: str
    status: Literal["in place", "ready", "missing", "outdated", "unsupported"]
    """`in place` where this environment has the libraries already; `ready` for one that commands continue in."""
    directory: Path
    reason: str = ""
    """Why it cannot be used; of one that is ready, how it differs from the user's environment."""
    command: str = ""
    """What makes it, or makes it again."""

    @property
    def is_usable(self) -> bool:
        """Whether the backbone can run."""
        return self.status in ("in place", "ready")

    def describe(self) -> str:
        """Say what is wrong, and the command."""
        remedy = f": {self.command}" if self.command else ""
        return f"the backbone '{self.backbone}' has its own virtual environment, {self.reason}{remedy}"


@runtime_checkable
class OwnVenv(Protocol):
    """What a backbone knows of its environment. Its package makes it; commands that use the backbone continue in it.

    The environment has the command `astuner` and the same astuner packages as the user's.
    """

    def examine(self, backbone: str) -> VenvState:
        """Return the state of the environment of the backbone with this name. Reads metadata only, and imports nothing heavy."""
