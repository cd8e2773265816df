"""What a server serves, and within which limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs.validators import ge, gt


@frozen(kw_only=True)
class Limits:
    """Of one instance."""

    memory_mb: int = field(default=2048, validator=ge(64))
    """Address space of its process."""
    cpu_s: int = field(default=600, validator=ge(1))
    """Processor time of its process, from its beginning to its end."""
    step_timeout_s: float = field(default=120.0, validator=gt(0))
    """Longest time for one call of the environment; one that takes longer ends the instance."""


@frozen(kw_only=True)
class ServedWorld:
    """One environment that is served."""

    name: str
    """As clients name it, and as it is found."""
    options: Mapping[str, Any] = field(factory=dict)
    """As a user writes them."""
    task_files: Mapping[str, Path] = field(factory=dict)
    """By split: rows to take the tasks from, in place of those that the environment lists itself."""


@frozen(kw_only=True)
class Settings:
    """Of one server."""

    worlds: tuple[ServedWorld, ...]
    config_dir: Path
    """Where relative paths start."""
    host: str = "127.0.0.1"
    port: int = 8080
    """0 takes a free one."""
    token: str | None = field(default=None, repr=False)
    """None lets everybody in."""
    max_instances: int = field(default=256, validator=ge(1))
    """At once; further ones are asked to come again."""
    idle_timeout_s: float = field(default=3600.0, validator=gt(0))
    """An instance without requests for this long is ended."""
    limits: Limits = field(factory=Limits)

    def find_world(self, name: str) -> ServedWorld | None:
        """Return what a client means; where one environment is served, no name (or the clients' `default`) means that."""
        if len(self.worlds) == 1 and name in ("", "default"):
            return self.worlds[0]
        return next((world for world in self.worlds if world.name == name), None)
