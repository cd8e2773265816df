"""Programs that a run uses: those of the YAML, and those that packages define in the group `astuner.services`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from astuner.settings.config.model import Ready, Service

__all__ = ["Definition", "Ready", "Service"]


@frozen(kw_only=True)
class Definition:
    """The definition of a service. Entry points in `astuner.services` name a function from `RunInfo` to one of these.

    The function is called when a user requests the service, before anything else of the run starts; it raises `UsageError`
    for what the user must fix first.
    """

    service: Service | None
    """The program to start; its `cwd` is relative to the YAML's directory. None if an external program serves already."""
    exports: Mapping[str, str] = field(factory=dict)
    """Environment variables of the run, set once the service is ready."""
    scratch: Path | None = None
    """A directory that does not exist yet: created for the service and removed after it ends."""
    url: str | None = None
    """URL for people."""
    step_url: str | None = None
    """URL of a page about a step, with `{step}` for its number: the console links each step to it (`LinksSteps`)."""
    notice: str | None = None
    """A notice for the user when it is used."""
