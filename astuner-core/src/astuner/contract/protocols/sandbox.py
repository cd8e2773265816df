"""Where the programs of agents run: what makes sandboxes, and one sandbox of one episode."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal

from attrs import field, frozen
from attrs.validators import deep_iterable, instance_of

from astuner.contract.protocols.traits import FLAG

KilledBy = Literal["timeout", "output", "disk", "processes", "memory"]

MAX_OUTPUT_BYTES = 8 * 1024 * 1024


@frozen(kw_only=True)
class SandboxSpec:
    """What an episode needs of its sandbox."""

    episode_id: str
    gateway_url: str | None = None
    """The base URL of the model, as this process reaches it; None if no program in the sandbox may call it."""
    image: str | None = None
    """The image of a container."""
    workdir: str | None = None
    """The absolute path at which programs see the working directory."""
    directories: tuple[str, ...] = ()
    """Absolute paths of more directories that programs may write to, empty at first."""
    user: str | None = None
    """The user, by name or number, that commands run as."""
    cpus: float | None = None
    """Most CPUs that the sandbox uses."""
    memory_mb: int | None = None
    """Most megabytes of memory that the sandbox uses."""


@frozen(kw_only=True)
class CommandResult:
    """What a command did."""

    exit_code: int
    """Negative for the number of the signal that ended it, as in `subprocess`."""
    stdout: str
    """Its output, at most the given number of bytes; what is not UTF-8 is replaced."""
    stderr: str
    killed_by: KilledBy | None = None
    """The limit that ended it: its time, its output, the bytes that it keeps on disk, its number of processes, or its memory."""
    duration_s: float = 0.0

    @property
    def timed_out(self) -> bool:
        """Whether it took too long."""
        return self.killed_by == "timeout"


class SandboxSession(ABC):
    """The sandbox of one episode: its own directories, and the commands that run in it, one at a time.

    All methods are called on the event loop of the episode. They raise `astuner.ServiceUnavailable` if the sandbox itself fails,
    which is no fault of the program in it.
    """

    workdir: str
    """The working directory, as programs in the sandbox see it; empty at first."""
    home: str
    """Their `HOME`, empty at first; `workdir` is not inside it."""
    gateway_url: str | None
    """`SandboxSpec.gateway_url`, as programs in the sandbox reach it."""

    @abstractmethod
    async def write_files(self, files: Mapping[str, str | bytes]) -> None:
        """Write files, by paths relative to `workdir`; `~/…` is below `home`. Raises `ValueError` for a path outside of both."""

    @abstractmethod
    async def run(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str | bytes = b"",
        timeout_s: float | None = None,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
    ) -> CommandResult:
        """Run a program to its end; then nothing that it started is alive.

        `env` goes on top of a small clean environment (`PATH`, `HOME`, `TMPDIR`, the locale). `cwd` is relative to `workdir`.
        `max_output_bytes` limits stdout and stderr each: a program that writes more is ended. Raises `FileNotFoundError` or
        another `OSError` if the program or `cwd` does not exist or cannot be used. Cancelling ends the program.
        """

    @abstractmethod
    async def read_files(self, patterns: Sequence[str], *, max_bytes: int) -> Mapping[str, bytes]:
        """Return the regular files whose paths, relative to `workdir`, match a pattern (`*`, `**`), in order of their paths.

        Links are not followed. A file with which the total would exceed `max_bytes` is left out.
        """

    @abstractmethod
    async def close(self) -> None:
        """End what runs, and remove all files. Called once on every path."""


@frozen(kw_only=True)
class SandboxTraits:
    """What a kind of sandbox separates and acts on."""

    separates_files: bool = field(default=False, validator=FLAG)
    """Whether a program in one sandbox is kept from the files of another, and from the user's."""
    separates_network: bool = field(default=False, validator=FLAG)
    """Whether a program reaches nothing but the gateway."""
    honours: frozenset[str] = field(default=frozenset(), validator=deep_iterable(instance_of(str), instance_of(frozenset)))
    """The optional fields of `SandboxSpec` that are acted on, `image` and those after it; the others have no effect."""


class Sandboxes(ABC):
    """Makes the sandboxes of a rollout process. Made once per process; nothing runs before the first `open`.

    Its class may have `traits` (`SandboxTraits`).
    `open` may be called on several event loops, one for each thread (`rollout.isolation: thread`).
    """

    @abstractmethod
    async def open(self, spec: SandboxSpec) -> SandboxSession:
        """Return a sandbox for an episode; raises `astuner.ServiceUnavailable`, with the reason, if none can be started."""

    @abstractmethod
    async def close(self) -> None:
        """End everything, sandboxes that are still open too."""

    def check(self) -> None:
        """Raise `astuner.contract.errors.PluginError`, with the remedy, if none can run here; called before the first episode."""
        return

    def find_program(self, name: str) -> bool | None:
        """Return whether programs in a sandbox find this one on their `PATH`; None if this is not known before one is open."""
        return None

    def suggest_program(self, name: str) -> str | None:
        """Return what to do about a program that `find_program` did not find; None if it has only to be installed."""
        return None
