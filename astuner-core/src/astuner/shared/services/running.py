"""The services of one run: started or reused, watched, and ended with it."""

from __future__ import annotations

import asyncio
import fcntl
import json
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b, sha256
from pathlib import Path

from attrs import define, field, frozen

from astuner.contract.errors import Interrupted, UsageError
from astuner.settings.config.model import Service
from astuner.shared.private_files import make_private_directory, open_private
from astuner.shared.processes import (
    Lease,
    ProgramHandle,
    ProgramRecord,
    ProgramSpec,
    attach,
    launch,
    list_programs,
    wait_until_ready,
)
from astuner.shared.processes.process_environment import export_variables
from astuner.shared.processes.program_record import state_directory
from astuner.shared.processes.readiness import find_missing_sign
from astuner.shared.services import Definition

LOOK_S = 1.0
NO_SUCH_COMMAND = 127
"""A shell's exit status for an unknown command."""


@frozen(kw_only=True)
class ServiceHost:
    """What services need from their run."""

    directory: Path
    """The run directory."""
    say: Callable[[str], None]
    """Reports the progress of a start to the user."""
    warn: Callable[[str], None]
    """Warns about a service that ends during the run."""
    stopped: Callable[[], bool]
    """Whether the run was asked to stop."""
    hide: Callable[[str], str] | None = None
    """Takes the secrets of the run out of a text."""


@contextmanager
def run_services(definitions: Mapping[str, Definition], place: ServiceHost) -> Iterator[None]:
    """Run services while the block lasts: each is ready before the next is started."""
    with ExitStack() as stack:
        services = _Services(place=place, stack=stack)
        for name, definition in definitions.items():
            services.start(name, definition)
        stack.enter_context(_watch(services.alive, place.warn))
        yield


@define(eq=False, kw_only=True)
class _Services:
    place: ServiceHost
    stack: ExitStack
    alive: list[ProgramHandle] = field(factory=list)

    def start(self, name: str, definition: Definition) -> None:
        """Start a service, or reuse one, and wait until it is ready."""
        if definition.notice:
            self.place.say(definition.notice)
        if definition.service is not None:
            self._provide(name, definition, definition.service)
        self.stack.enter_context(export_variables(definition.exports))

    def _provide(self, name: str, definition: Definition, service: Service) -> None:
        digest = _compute_digest(service)
        # Two runs that start at the same moment would each start the kept service.
        with _lock_name(name):
            kept = _find_kept(name, digest)
            if kept is None and self._is_served(name, service):
                return
            launched = None if kept is not None else self._launch(name, definition, service, digest)
        if launched is not None:
            self._begin(launched, name, definition, service)
        elif kept is not None:
            found = attach(kept)
            self._await(found, service)
            self.stack.enter_context(found.keep_leased())
            self.alive.append(found)
            self.place.say(f"{kept.what}: reused ({kept.id}, since {kept.started}); `astuner stop {name}` ends it")

    def _is_served(self, name: str, service: Service) -> bool:
        """Whether another program already serves the service's port or URL."""
        seen = service.ready.port is not None or service.ready.url is not None
        if not seen or find_missing_sign(service.ready, None) is not None:
            return False
        place = service.ready.url or f"port {service.ready.port}"
        theirs = next((one for one in list_programs() if _is_service(one, name) and one.port == service.ready.port), None)
        if theirs is None:
            self.place.say(
                f"service '{name}': {place} answers already, so nothing is started and the program there is left alone"
            )
        else:
            self.alive.append(attach(theirs))
            whose = f"the run in {theirs.directory} started it, and it ends with that run; `keep: true` lets it outlive both"
            self.place.say(f"service '{name}': {place} answers already: {whose}")
        return True

    def _launch(self, name: str, definition: Definition, service: Service, digest: str) -> ProgramHandle:
        _check_command(name, service)
        words = ["/bin/sh", "-c", service.command] if isinstance(service.command, str) else list(service.command)
        self.place.say(f"service '{name}': starting")
        program = ProgramSpec(
            command=words,
            kind="service",
            name=name,
            log=self.place.directory / "logs" / f"service-{name}.log",
            cwd=service.cwd or ".",
            env=service.env,
            directory=self.place.directory,
            port=service.ready.port,
            url=definition.url or service.ready.url,
            lease=Lease(idle_s=None) if service.keep else None,
            facts={"digest": digest},
            scratch=definition.scratch,
        )
        return launch(program, self.place.hide or str)

    def _begin(self, launched: ProgramHandle, name: str, definition: Definition, service: Service) -> None:
        """Wait until a started service is ready, and end it with the run unless it is kept."""
        try:
            self._await(launched, service)
        except BaseException as error:
            status = launched.poll()
            launched.end()
            if status == NO_SUCH_COMMAND and isinstance(service.command, str):
                raise UsageError(str(error)) from None
            raise
        if not service.keep:
            self.stack.callback(launched.end)
        self.alive.append(launched)
        kept = f"; it stays after the run until `astuner stop {name}`" if service.keep else ""
        at = "" if definition.url is None else f" at {definition.url}"
        self.place.say(f"service '{name}': ready{at}{kept}")

    def _await(self, launched: ProgramHandle, service: Service) -> None:
        async def wait() -> None:
            ready = asyncio.ensure_future(wait_until_ready(launched, service.ready, service.timeout_s, self.place.say))
            while not ready.done():
                if self.place.stopped():
                    ready.cancel()
                    raise Interrupted(f"stopped while {launched.record.what} was starting")
                await asyncio.wait({ready}, timeout=0.2)
            await ready

        asyncio.run(wait())


def _compute_digest(service: Service) -> str:
    """Return a digest of command, directory and environment, none of which can be read from it."""
    command = service.command if isinstance(service.command, str) else list(service.command)
    text = json.dumps([command, service.cwd, sorted(service.env.items())], ensure_ascii=False)
    return sha256(text.encode()).hexdigest()[:16]


def _check_command(name: str, service: Service) -> None:
    """Raise if the first word is not a program; a shell reports that itself."""
    if isinstance(service.command, str):
        return
    if not service.command:
        raise UsageError(f"services.{name}.command: no words")
    first, path = service.command[0], service.env.get("PATH")
    found = shutil.which(first, path=path) or (service.cwd and shutil.which(str(Path(service.cwd, first)), path=path))
    if not found:
        raise UsageError(f"services.{name}.command: program {first!r} was found neither on PATH nor in {service.cwd}")


def _is_service(record: ProgramRecord, name: str) -> bool:
    return record.kind == "service" and record.name == name


def _find_kept(name: str, digest: str) -> ProgramRecord | None:
    """Return the service kept by an earlier run; raises if it was started with other settings."""
    kept = [one for one in list_programs() if _is_service(one, name) and one.lease is not None]
    same = [one for one in kept if one.facts.get("digest") == digest]
    if kept and not same:
        raise UsageError(
            f"service '{name}' runs already, kept from an earlier run with another command, directory or environment; "
            f"end it first: astuner stop {kept[0].id}"
        )
    return same[0] if same else None


@contextmanager
def _lock_name(name: str) -> Iterator[None]:
    """Let only one of the user's runs at a time look for and start a service of this name."""
    with ExitStack() as stack:
        # If nothing can be written, services have no records and none is kept.
        with suppress(OSError):
            home = state_directory() / "locks"
            make_private_directory(home)
            lock = stack.enter_context(open_private(home / f"service-{blake2b(name.encode(), digest_size=8).hexdigest()}", "w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _watch(services: list[ProgramHandle], warn: Callable[[str], None]) -> Iterator[None]:
    """Warn once about each service that ends during the run."""
    over = threading.Event()

    def watch() -> None:
        left = list(services)
        while left and not over.wait(LOOK_S):
            for service in [one for one in left if one.poll() is not None]:
                left.remove(service)
                record = service.record
                warn(
                    f"{record.what} ended during the run (exit status {service.poll()}); the run continues without it. "
                    f"Last lines of {record.log}:\n{service.tail(10)}"
                )

    watcher = threading.Thread(target=watch, name="services", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
