"""The sandbox `docker`: the pool of containers, what is checked before the first, and what killed runs have left."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from attrs import evolve

from astuner.contract.errors import PluginError, ServiceUnavailable
from astuner.contract.protocols import RunInfo, Sandboxes, SandboxSession, SandboxSpec, SandboxTraits
from astuner_agents.docker.container import Container, describe_missing, remove_container, start_container
from astuner_agents.docker.daemon import Daemon
from astuner_agents.docker.options import DockerOptions
from astuner_agents.docker.session import open_session, pack_places

OWNER, MACHINE, RUN = "astuner.owner", "astuner.machine", "astuner.run"
"""The labels of containers: the process that they belong to, where its number counts, and its run directory."""
CALLS = 8
"""Calls to the daemon at a time."""
WAIT_S = 0.05


class DockerSandboxes(Sandboxes):
    """Each sandbox is a container without a network and without capabilities, which ends with the process that opened it."""

    Options = DockerOptions
    traits = SandboxTraits(
        separates_files=True,
        separates_network=True,
        honours=frozenset({"image", "workdir", "directories", "user", "cpus", "memory_mb"}),
    )

    def __init__(self, options: DockerOptions, run: str = "") -> None:
        """`run` is written on the containers."""
        self._options, self._run = options, run
        self._daemon = Daemon(options.host)
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(options.max_sessions)
        self._executor: ThreadPoolExecutor | None = None
        self._warm: list[Future[Container]] = []
        self._open: set[SandboxSession] = set()
        self._known: dict[str, threading.Lock] = {}
        self._pulled: set[str] = set()
        self._programs: dict[str, bool] = {}
        self._is_closed = False

    @classmethod
    def from_run(cls, options: DockerOptions, run_info: RunInfo) -> DockerSandboxes:
        """Make them for a run."""
        return cls(options, str(run_info.directory))

    def check(self) -> None:
        """Pull the image and start a container of it."""
        options = self._options
        try:
            api = self._daemon.api
            with self._daemon.explain("it does not say what it can do"):
                info: Mapping[str, Any] = api.info()
            if info.get("OSType", "linux") != "linux":
                raise ServiceUnavailable(f"the Docker daemon at {self._daemon.address} runs no Linux containers")
            if options.image is not None:
                self._start(options).remove()
        except ServiceUnavailable as error:
            raise PluginError(f"the sandbox 'docker' cannot be used: {error}") from error

    def find_program(self, name: str) -> bool | None:
        """Look in a container of the image; None if tasks may have other images."""
        image = self._options.image
        if "/" in name or image is None:
            return None
        if name not in self._programs:
            with suppress(ServiceUnavailable):
                self._programs[name] = self._look_for(name)
        return self._programs.get(name)

    def suggest_program(self, name: str) -> str | None:
        """Name the image."""
        return f"install it in the image {self._options.image} (astuner.sandbox.docker.image)"

    async def open(self, spec: SandboxSpec) -> SandboxSession:
        """Take a warm container, or start one; waits while there are `max_sessions`."""
        while not self._slots.acquire(blocking=False):
            # Not a lock of asyncio: several event loops may share these sandboxes.
            await asyncio.sleep(WAIT_S)
        starting: Future[Container] | None = None
        try:
            executor = self._get_executor()
            options = self._fit(spec)
            starting = self._take(options, spec.directories, executor)
            self._refill(executor)
            container = await asyncio.wrap_future(starting)
            session = await self._make_session(container, options, spec, executor)
        except BaseException:
            self._slots.release()
            if starting is not None:
                starting.add_done_callback(_discard)
            raise
        return session

    async def close(self) -> None:
        """End the sandboxes that are open, and those that wait."""
        with self._lock:
            self._is_closed = True
            left, self._open = list(self._open), set()
            warm, self._warm = self._warm, []
            executor, self._executor = self._executor, None
        await asyncio.gather(*(session.close() for session in left))
        for starting in warm:
            starting.add_done_callback(_discard)
        if executor is not None:
            await asyncio.to_thread(executor.shutdown)
        self._daemon.close()

    def _fit(self, spec: SandboxSpec) -> DockerOptions:
        """Return the options of one container: what its task asks for comes before what the run says."""
        asked: dict[str, Any] = {
            "image": spec.image,
            "workdir": spec.workdir,
            "user": spec.user,
            "cpus": spec.cpus,
            "max_memory_bytes": None if spec.memory_mb is None else spec.memory_mb * 1024**2,
        }
        try:
            fitted = evolve(self._options, **{name: value for name, value in asked.items() if value is not None})
        except ValueError as error:
            raise ServiceUnavailable(f"no container is as the task asks for it: {error}") from error
        if fitted.image is None:
            raise ServiceUnavailable(
                "the task names no image (docker_image of its metadata), and astuner.sandbox.docker.image is not set"
            )
        return fitted

    async def _make_session(
        self, container: Container, options: DockerOptions, spec: SandboxSpec, executor: ThreadPoolExecutor
    ) -> SandboxSession:
        holder: list[SandboxSession] = []

        def release() -> None:
            with self._lock:
                self._open.discard(holder[0])
            self._slots.release()

        session = await open_session(container, options, spec, env=self._make_environment(), executor=executor, release=release)
        holder.append(session)
        with self._lock:
            self._open.add(session)
        return session

    def _make_environment(self) -> Mapping[str, str]:
        options = self._options
        own = {"HOME": options.home, "TMPDIR": "/tmp", "USER": "agent", "LOGNAME": "agent", "SHELL": "/bin/sh", "LANG": "C.UTF-8"}
        return {**own, **{name: os.environ[name] for name in options.inherit if name in os.environ}, **options.env}

    def _get_executor(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._is_closed:
                raise ServiceUnavailable("the sandboxes are closed")
            if self._executor is None:
                self._executor = ThreadPoolExecutor(CALLS, thread_name_prefix="astuner-docker")
                self._executor.submit(self._sweep)
            return self._executor

    def _take(self, options: DockerOptions, directories: Sequence[str], executor: ThreadPoolExecutor) -> Future[Container]:
        with self._lock:
            if self._is_closed:
                raise ServiceUnavailable("the sandboxes are closed")
            while self._warm and options == self._options and not directories:
                starting = self._warm.pop(0)
                if not starting.done() or (starting.exception() is None and starting.result().is_alive):
                    return starting
                starting.add_done_callback(_discard)
            return executor.submit(self._start, options, directories)

    def _refill(self, executor: ThreadPoolExecutor) -> None:
        options = self._options
        with self._lock:
            if options.image is not None and not self._is_closed and len(self._warm) < options.warm:
                self._warm.append(executor.submit(self._start, options))

    def _start(self, options: DockerOptions, directories: Sequence[str] = ()) -> Container:
        image = str(options.image)
        self._pull(image)
        labels = {OWNER: _name_process(os.getpid()), MACHINE: _name_machine(), RUN: self._run}
        container = start_container(self._daemon, options, image, labels)
        try:
            container.write("/", pack_places((options.workdir, options.home, *directories), container.uid, container.gid))
        except BaseException:
            container.remove()
            raise
        return container

    def _pull(self, image: str) -> None:
        """Pull an image where that is wanted, once at a time."""
        from docker.errors import ImageNotFound

        with self._lock:
            lock = self._known.setdefault(image, threading.Lock())
        with lock:
            if image in self._pulled:
                return
            pull, api = self._options.pull, self._daemon.api
            with self._daemon.explain(f"the image {image} cannot be found"):
                try:
                    api.inspect_image(image)
                    is_here = True
                except ImageNotFound:
                    is_here = False
            if pull == "never" and not is_here:
                raise ServiceUnavailable(describe_missing(image))
            if pull == "always" or not is_here:
                with self._daemon.explain(
                    f"the image {image} cannot be pulled (astuner.sandbox.docker.image, or the task's docker_image)"
                ):
                    api.pull(image, tag=None if ":" in image.rpartition("/")[2] or "@" in image else "latest")
            self._pulled.add(image)

    def _look_for(self, name: str) -> bool:
        container = self._start(self._options)
        try:
            return container.has_program(name, self._make_environment())
        finally:
            container.remove()

    def _sweep(self) -> None:
        """Remove the containers of killed processes; most have ended with them."""
        with suppress(ServiceUnavailable), self._daemon.explain("containers cannot be listed"):
            for found in self._daemon.api.containers(all=True, filters={"label": [f"{MACHINE}={_name_machine()}"]}):
                process, _, _ = found["Labels"].get(OWNER, "").partition("-")
                if process.isdigit() and found["Labels"][OWNER] != _name_process(int(process)):
                    remove_container(self._daemon, found["Id"])


def _discard(starting: Future[Container]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().remove()


def _name_process(process: int) -> str:
    """Return what no later process is called, for one that is alive."""
    try:
        # In ticks since the start of the machine; the time of day may be set.
        stat = Path(f"/proc/{process}/stat").read_bytes()
        return f"{process}-{int(stat.rpartition(b')')[2].split()[19])}"
    except OSError:
        # Without /proc, a number that is in use again is taken for the same process.
        return f"{process}-0" if psutil.pid_exists(process) else "gone"


def _name_machine() -> str:
    """Return where the numbers of processes are those of this process."""
    try:
        return f"{socket.gethostname()}-{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()
