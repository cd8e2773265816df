"""A service, ready to be started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from astuner.config.model import Service


@frozen(kw_only=True)
class Definition:
    """What a service is. An entry point of the group `astuner.services` names a function from `RunInfo` to one of these.

    The function is called when a user asks for the service, before anything of the run is alive; it raises `UsageError` for what
    the user has to mend first.
    """

    service: Service | None
    """What to start; its `cwd` starts at the YAML's directory. None where something outside serves already."""
    exports: Mapping[str, str] = field(factory=dict)
    """Environment variables of the run, set once the service is ready."""
    scratch: Path | None = None
    """A directory that does not exist yet: made for the service, and removed when that has ended."""
    url: str | None = None
    """Where people find it."""
    notice: str | None = None
    """What the user should know when it is used."""
