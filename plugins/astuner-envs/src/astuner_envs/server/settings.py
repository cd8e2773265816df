"""What a server serves, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import Factory, field, frozen
from attrs.validators import ge, gt


@frozen(kw_only=True)
class Limits:
    """Of one instance."""

    memory_mb: int = field(default=2048, validator=ge(64))
    """Address space of its process."""
    cpu_s: int = field(default=600, validator=ge(1))
    """Total processor time of its process."""
    step_timeout_s: float = field(default=120.0, validator=gt(0))
    """Longest time for one call of the environment; one that takes longer ends the instance."""


@frozen(kw_only=True)
class ServedWorld:
    """One environment that is served."""

    name: str
    """As clients name it."""
    component: str = field(default=Factory(lambda self: self.name, takes_self=True))
    """What it is: the name of an installed environment, or `./file.py:Class`. Clients may use it too."""
    options: Mapping[str, Any] = field(factory=dict)
    """As the user wrote them."""
    task_files: Mapping[str, Path] = field(factory=dict)
    """By split: rows to take the tasks from, instead of the environment's own list."""


@frozen(kw_only=True)
class Settings:
    """Of one server."""

    worlds: tuple[ServedWorld, ...]
    config_dir: Path
    """Where relative paths start."""
    host: str = "127.0.0.1"
    port: int = 8080
    """0 takes a free port."""
    token: str | None = field(default=None, repr=False)
    """None lets everybody in."""
    max_instances: int = field(default=256, validator=ge(1))
    """At once; further clients must retry."""
    idle_timeout_s: float = field(default=3600.0, validator=gt(0))
    """An instance without requests for this long is ended."""
    limits: Limits = field(factory=Limits)

    def find_world(self, name: str) -> ServedWorld | None:
        """Return the environment that a client names; no name (or the clients' `default`) means the only one."""
        if len(self.worlds) == 1 and name in ("", "default"):
            return self.worlds[0]
        return next((world for world in self.worlds if name in (world.name, world.component)), None)
