"""The options of sandboxes that are processes of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import Attribute, field, frozen
from attrs.validators import ge


def _check_limit(_: Any, attribute: Attribute[Any], value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"'{attribute.name}' must be at least 1, or null for no limit: {value}")


@frozen(kw_only=True)
class ProcessOptions:
    """Limits of each sandbox, and how many there are."""

    max_disk_bytes: int = field(default=2 * 1024**3, validator=ge(1))
    """Most bytes that the files of a sandbox take together, measured once a second; also the size of its largest file."""
    max_processes: int = field(default=256, validator=ge(1))
    """Most processes of a command at a time, counted once a second."""
    max_memory_bytes: int | None = field(default=None, validator=_check_limit)
    """Most bytes of address space of each process. Programs of Node.js reserve far more than they use, and do not start under
    such a limit."""
    max_cpu_s: int | None = field(default=None, validator=_check_limit)
    """Most seconds of CPU time of each process."""
    max_sessions: int = field(default=256, validator=ge(1))
    """Most sandboxes of a rollout process at a time; further episodes wait."""
    warm: int = field(default=2, validator=ge(0))
    """Sandboxes that are started before an episode needs one."""
    directory: str | None = None
    """Where the files of sandboxes are, relative to the YAML; the system's directory for temporary files by default."""
    inherit: tuple[str, ...] = ()
    """Environment variables of the run that programs get too, besides `PATH` and the locale."""
    env: Mapping[str, str] = field(factory=dict)
    """Environment variables of every program."""

    def list_limits(self) -> Mapping[str, int]:
        """Return the limits of a process by the names of the constants of `resource`."""
        limits = {"RLIMIT_FSIZE": self.max_disk_bytes, "RLIMIT_CORE": 0}
        if self.max_memory_bytes is not None:
            limits["RLIMIT_AS"] = self.max_memory_bytes
        if self.max_cpu_s is not None:
            limits["RLIMIT_CPU"] = self.max_cpu_s
        return limits
