"""The options of the sandbox `docker`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import ge, gt, optional


def _check_directory(_: Any, attribute: Attribute[Any], value: str) -> None:
    path = PurePosixPath(value)
    if not path.is_absolute() or path == PurePosixPath("/") or ".." in path.parts:
        raise ValueError(f"'{attribute.name}' must be an absolute path in the container, other than /: {value!r}")


@frozen(kw_only=True)
class DockerOptions:
    """The image, the limits of each container, and how many there are."""

    image: str | None = None
    """The image of tasks that name none, in `docker_image` of their metadata. It needs `/bin/sh`, and `python3` or `node` for the
    calls of the model."""
    pull: Literal["missing", "always", "never"] = "missing"
    """When images are pulled: if the daemon lacks them, once in each run, or never."""
    host: str | None = None
    """The daemon, as `unix:///run/docker.sock` or `tcp://host:port`; by default that of `DOCKER_HOST`, or of the current context
    of the program `docker`."""
    user: str | None = None
    """The user that programs run as, as a name or number of the image; the image's own by default. No user has capabilities."""
    workdir: str = field(default="/work", validator=_check_directory)
    """The working directory. One that the image has keeps its files."""
    home: str = field(default="/home/agent", validator=_check_directory)
    """The home directory."""
    cpus: float = field(default=1.0, validator=gt(0.0))
    """CPUs of each container, as a share of time; more than the machine has counts as all of them."""
    max_memory_bytes: int = field(default=2 * 1024**3, validator=ge(6 * 1024**2))
    """Most memory of each container, without swap."""
    max_disk_bytes: int = field(default=2 * 1024**3, validator=ge(1))
    """Most bytes that a container adds to its image, measured every two seconds; also the size of its largest file. The daemon
    enforces it too, where its storage driver can."""
    max_processes: int = field(default=1024, validator=ge(1))
    """Most processes and threads of a command at a time."""
    max_cpu_s: int | None = field(default=None, validator=optional(ge(1)))
    """Most seconds of CPU time of each process."""
    max_sessions: int = field(default=64, validator=ge(1))
    """Most containers of a rollout process at a time, besides the warm ones; further episodes wait."""
    warm: int = field(default=2, validator=ge(0))
    """Containers of `image` that are started before an episode needs one."""
    runtime: str | None = None
    """The daemon's runtime of containers, such as `runsc`; its default one otherwise."""
    inherit: tuple[str, ...] = ()
    """Environment variables of the run that programs get too."""
    env: Mapping[str, str] = field(factory=dict)
    """Environment variables of every program, on top of those of the image."""
