"""Sandboxes that are processes of this machine: the pool of them, and what their kinds differ in."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import ClassVar

import psutil
from attrs import frozen

from astuner.contract.errors import ServiceUnavailable
from astuner.contract.protocols import RunInfo, Sandboxes, SandboxSession, SandboxSpec, SandboxTraits, read_traits
from astuner.settings.config.paths import resolve_path
from astuner_agents.sandboxes.gateway_relay import GatewayRelay
from astuner_agents.sandboxes.options import ProcessOptions
from astuner_agents.sandboxes.process_session import ProcessSession, SandboxDirectories
from astuner_agents.sandboxes.supervisor import Supervisor, SupervisorSettings
from astuner_agents.sandboxes.tree_removal import remove_tree

PREFIX = "astuner-sandbox-"
FOLDERS = ("work", "home", "tmp")
LOCALE = ("LANG", "LC_ALL", "TZ")
WAIT_S = 0.05


@frozen(kw_only=True)
class Wrapping:
    """How a supervisor is started, and what programs in its sandbox see."""

    command: tuple[str, ...] = ()
    """Comes before the program of the supervisor and runs it, with its descriptors: `("nice", "-n", "5")`."""
    workdir: str
    home: str
    tmp: str
    remove: tuple[str, ...] = ()
    """The directories that the supervisor removes when it ends, as it sees them."""
    uid: int | None = None
    """The user that commands run as; None for the user of the supervisor."""
    is_relayed: bool = False
    """Whether it has a network of its own, into which the gateway is relayed."""
    folders: tuple[str, ...] = ()
    """Directories to make besides `work`, `home` and `tmp`, relative to that of the supervisor; they count as its files."""


@frozen(kw_only=True)
class _Started:
    supervisor: Supervisor
    place: SandboxDirectories
    wrapping: Wrapping


class ProcessSandboxes(Sandboxes):
    """Each sandbox is a process that leads a directory, a home and all processes of its commands.

    A subclass says in `wrap` how that process is started, and in `Options`, which extends `ProcessOptions`, with which options.
    """

    Options: ClassVar[type[ProcessOptions]] = ProcessOptions

    def __init__(self, options: ProcessOptions, config_dir: Path | None = None) -> None:
        """Relative paths start at `config_dir`."""
        self._options = options
        self._config_dir = config_dir or Path.cwd()
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(options.max_sessions)
        self._numbers = count(1)
        self._base: Path | None = None
        self._warm: list[_Started] = []
        self._open: set[ProcessSession] = set()
        self._is_closed = False

    @classmethod
    def from_run(cls, options: ProcessOptions, run_info: RunInfo) -> ProcessSandboxes:
        """Make them for a run."""
        return cls(options, run_info.config_dir)

    def wrap(self, directory: Path) -> Wrapping:
        """Return how the supervisor in a directory, which holds `work`, `home` and `tmp`, is started."""
        inside = {name: str(directory / name) for name in FOLDERS}
        return Wrapping(workdir=inside["work"], home=inside["home"], tmp=inside["tmp"], remove=(str(directory),))

    def place_directories(self, wrapping: Wrapping, directory: Path, spec: SandboxSpec) -> Wrapping:
        """Return how a supervisor is started in which programs see the directories of a spec (`workdir`, `directories`).

        Called instead of taking a supervisor that was started ahead, if `honours` has one of these fields and the spec sets it.
        """
        raise NotImplementedError

    @property
    def path(self) -> str:
        """The `PATH` of programs: where this Python is, and then the run's own."""
        folder, own = os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)
        return self._options.env.get("PATH", own if folder in own.split(os.pathsep) else f"{folder}{os.pathsep}{own}")

    def find_program(self, name: str) -> bool | None:
        """Whether it is on the `PATH` of the sandboxes; None for a path, which may be that of a file of the episode."""
        if "/" in name:
            return None
        return shutil.which(name, path=self.path) is not None

    async def open(self, spec: SandboxSpec) -> SandboxSession:
        """Take a warm sandbox, or start one; waits while there are `max_sessions`."""
        while not self._slots.acquire(blocking=False):
            # Not a lock of asyncio: several event loops may share these sandboxes.
            await asyncio.sleep(WAIT_S)
        started = None
        try:
            places = {name for name in ("workdir", "directories") if getattr(spec, name)}
            started = self._start(spec) if places & read_traits(self, SandboxTraits).honours else self._take()
            self._refill()
            await started.supervisor.wait_until_ready()
            session = await self._make_session(started, spec)
        except BaseException:
            self._slots.release()
            if started is not None:
                await asyncio.shield(asyncio.to_thread(_discard, started))
            raise
        with self._lock:
            self._open.add(session)
        return session

    async def close(self) -> None:
        """End the sandboxes that are open, and those that wait."""
        with self._lock:
            self._is_closed = True
            left, self._open = list(self._open), set()
            warm, self._warm = self._warm, []
            base, self._base = self._base, None
        for session in left:
            await session.close()
        for started in warm:
            started.supervisor.hang_up()
        for started in warm:
            await asyncio.to_thread(_discard, started)
        if base is not None:
            await asyncio.to_thread(remove_tree, base)

    async def _make_session(self, started: _Started, spec: SandboxSpec) -> ProcessSession:
        wrapping, relay, url = started.wrapping, None, spec.gateway_url
        if wrapping.is_relayed and url is not None:
            relay = GatewayRelay(url)
            await relay.start(await started.supervisor.listen(relay.port))
            url = relay.url
        holder: list[ProcessSession] = []

        def release() -> None:
            with self._lock:
                self._open.discard(holder[0])
            self._slots.release()

        own = {"HOME": wrapping.home, "TMPDIR": wrapping.tmp, "USER": "agent", "LOGNAME": "agent", "SHELL": "/bin/sh"}
        session = ProcessSession(
            started.supervisor,
            started.place,
            env={**self._make_environment(), **own, **self._options.env},
            max_disk_bytes=self._options.max_disk_bytes,
            gateway_url=url,
            relay=relay,
            release=release,
        )
        holder.append(session)
        return session

    def _make_environment(self) -> Mapping[str, str]:
        """Return what programs get of the environment of the run."""
        from astuner.episodes.containment.leftovers import EPISODES
        from astuner.shared.processes import MARK

        # By the last two, the end of the run finds what escaped its supervisor.
        names = (*LOCALE, *self._options.inherit, EPISODES, MARK)
        return {"PATH": self.path, "LANG": "C.UTF-8", **{name: os.environ[name] for name in names if name in os.environ}}

    def _take(self) -> _Started:
        with self._lock:
            if self._is_closed:
                raise ServiceUnavailable("the sandboxes are closed")
            while self._warm:
                started = self._warm.pop(0)
                if started.supervisor.is_alive:
                    return started
                _discard(started)
        return self._start()

    def _refill(self) -> None:
        with self._lock:
            is_short = not self._is_closed and len(self._warm) < self._options.warm
        if is_short:
            started = self._start()
            with self._lock:
                self._warm.append(started)

    def _start(self, spec: SandboxSpec | None = None) -> _Started:
        try:
            directory = self._make_directory()
            wrapping = self.wrap(directory)
            if spec is not None:
                wrapping = self.place_directories(wrapping, directory, spec)
            for name in (*FOLDERS, *wrapping.folders):
                (directory / name).mkdir(mode=0o700, parents=True)
                if wrapping.uid is not None:
                    os.chown(directory / name, wrapping.uid, wrapping.uid)
        except OSError as error:
            raise ServiceUnavailable(f"no directory for a sandbox can be made: {error}") from error
        place = SandboxDirectories(
            directory=directory,
            workdir=wrapping.workdir,
            home=wrapping.home,
            tmp=wrapping.tmp,
            uid=wrapping.uid,
            folders=(*FOLDERS, *wrapping.folders),
        )
        settings = SupervisorSettings(
            limits=self._options.list_limits(),
            max_processes=self._options.max_processes,
            uid=wrapping.uid,
            remove=wrapping.remove,
        )
        try:
            supervisor = Supervisor(wrapping.command, settings, directory / "errors")
        except ServiceUnavailable:
            remove_tree(directory)
            raise
        return _Started(supervisor=supervisor, place=place, wrapping=wrapping)

    def _make_directory(self) -> Path:
        with self._lock:
            if self._base is None:
                given = self._options.directory
                parent = Path(tempfile.gettempdir() if given is None else resolve_path(given, self._config_dir))
                parent.mkdir(parents=True, exist_ok=True)
                _sweep(parent)
                self._base = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent))
            base = self._base
        directory = base / str(next(self._numbers))
        directory.mkdir(mode=0o700, parents=True)
        return directory


def _discard(started: _Started) -> None:
    started.supervisor.hang_up()
    started.supervisor.wait()
    remove_tree(started.place.directory)


def _sweep(parent: Path) -> None:
    """Remove what sandboxes of killed processes have left."""
    for path in parent.glob(f"{PREFIX}*"):
        number = path.name.removeprefix(PREFIX).partition("-")[0]
        # Another run may remove it at the same time.
        with suppress(FileNotFoundError):
            if number.isdigit() and not psutil.pid_exists(int(number)) and path.stat().st_uid == os.getuid():
                remove_tree(path)
