"""A container of one sandbox: started, filled, looked at and removed. Everything here blocks."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from attrs import frozen

from astuner.contract.errors import ServiceUnavailable
from astuner_agents.docker.attached_process import read_line
from astuner_agents.docker.daemon import Daemon
from astuner_agents.docker.options import DockerOptions

RELAY_PORT = 47821
"""Where programs reach the gateway."""
RELAY_USERS = ("65533", "65532")
"""The user of the relay is another than that of programs, which then cannot end it."""
RESERVE = 32
"""Processes and threads of the sandbox itself."""
START_TIMEOUT_S = 60.0
LOOK = 'IFS=:; for folder in $PATH; do if [ -f "$folder/$1" ] && [ -x "$folder/$1" ]; then echo found; exit; fi; done'
"""Not `command -v`, which finds what is built into the shell."""


@frozen(kw_only=True, eq=False)
class Container:
    """A running container and the streams of its two processes, which nothing has read yet."""

    daemon: Daemon
    id: str
    image: str
    uid: int
    gid: int
    keeper: socket.socket
    """Of its first process, with which it ends."""
    relay: socket.socket

    @property
    def is_alive(self) -> bool:
        """Whether its first process has not ended, as long as nothing has read its stream."""
        try:
            return bool(self.keeper.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def remove(self) -> None:
        """End everything in it and remove it; with the daemon gone there is nothing that could be done."""
        self.keeper.close()
        self.relay.close()
        remove_container(self.daemon, self.id)

    def write(self, directory: str, archive: bytes) -> None:
        """Unpack an archive in a directory."""
        with self.daemon.explain("files cannot be written into the sandbox"):
            self.daemon.api.put_archive(self.id, directory, archive)

    def read(self, path: str) -> Iterator[bytes] | None:
        """Return the chunks of an archive of a path; None if it does not exist."""
        from docker.errors import NotFound

        with self.daemon.explain("files of the sandbox cannot be read"):
            try:
                chunks: Iterator[bytes] = self.daemon.api.get_archive(self.id, path)[0]
            except NotFound:
                return None
        return chunks

    def has_program(self, name: str, env: Mapping[str, str]) -> bool:
        """Whether a program is on the `PATH` in it."""
        _, stream = self.daemon.execute(self.id, ["/bin/sh", "-c", LOOK, "sh", name], env, "")
        with self.daemon.explain("a program cannot be looked for in a container"), stream:
            return read_line(stream)[0] == b"found"

    def count_processes(self) -> int:
        """Return the number of its processes and threads, without those of the sandbox."""
        with self.daemon.explain("the processes of the sandbox cannot be counted"):
            found = self.daemon.api.stats(self.id, stream=False, one_shot=True)
        return int(found.get("pids_stats", {}).get("current", 0)) - 2

    def measure(self) -> int:
        """Return the bytes that it has added to its image."""
        with self.daemon.explain("the files of the sandbox cannot be measured"):
            found = self.daemon.api.containers(filters={"id": self.id}, size=True)
        return int(found[0].get("SizeRw") or 0) if found else 0

    def read_exit_code(self, process: str) -> int | None:
        """Return how a process ended; None if it has not."""
        with self.daemon.explain("the exit code of a program cannot be read"):
            found = self.daemon.api.exec_inspect(process)
        return None if found["Running"] or found["ExitCode"] is None else int(found["ExitCode"])

    def describe_end(self) -> str | None:
        """Return why it has ended, or is ending; None if it runs."""
        from docker.errors import NotFound

        with self.daemon.explain("a container of a sandbox cannot be looked at"):
            try:
                state: Mapping[str, Any] = self.daemon.api.inspect_container(self.id)["State"]
            except NotFound:
                return "the container of the sandbox was removed, by something other than astuner or at the end of its memory"
        if state["Running"] and not state.get("Dead"):
            return None
        reason = "it ran out of memory" if state.get("OOMKilled") else f"its first process ended with {state['ExitCode']}"
        return f"the container of the sandbox has ended: {reason}"

    def has_run_out_of_memory(self, since: float) -> bool:
        """Whether the kernel has ended a process in it for that reason, since a time of `time.time()`."""
        # Not its state, which says so only when the first process was ended.
        given: Mapping[str, Any] = {
            "since": f"{since:.6f}",
            "until": f"{time.time():.6f}",
            "filters": {"container": self.id, "event": "oom"},
        }
        with self.daemon.explain("a container of a sandbox cannot be looked at"):
            return any(True for _ in self.daemon.api.events(**given))


def start_container(daemon: Daemon, options: DockerOptions, image: str, labels: Mapping[str, str]) -> Container:
    """Start a container with its directories and its relay; raises `ServiceUnavailable`, with the reason, if that fails."""
    made = _create(daemon, options, image, labels)
    streams: list[socket.socket] = []
    try:
        keeper = daemon.attach(made)
        streams.append(keeper)
        keeper.settimeout(START_TIMEOUT_S)
        with daemon.explain(f"no container of the image {image} can be started"):
            daemon.api.start(made)
        uid, gid = _read_user(keeper, image)
        user = next(one for one in RELAY_USERS if one != str(uid))
        words = [read_program("relay.sh"), "sh", read_program("relay.py"), read_program("relay.js"), str(RELAY_PORT)]
        _, relay = daemon.execute(made, ["/bin/sh", "-c", *words], {}, user)
        streams.append(relay)
        relay.settimeout(START_TIMEOUT_S)
        _check_relay(relay, image)
        # With a time limit, Python waits for what is to be received even if it should not.
        keeper.setblocking(False)
    except OSError as error:
        _give_up(daemon, made, streams)
        raise ServiceUnavailable(f"a container of the image {image} did not start within {START_TIMEOUT_S:g} s") from error
    except BaseException:
        _give_up(daemon, made, streams)
        raise
    return Container(daemon=daemon, id=made, image=image, uid=uid, gid=gid, keeper=keeper, relay=relay)


def remove_container(daemon: Daemon, container: str) -> None:
    """Remove a container, also one that is being removed already, or whose daemon does not answer."""
    from docker.errors import APIError

    with suppress(ServiceUnavailable), daemon.explain("a container cannot be removed"), suppress(APIError):
        try:
            daemon.api.remove_container(container, force=True, v=True)
        except APIError as error:
            if error.status_code != HTTPStatus.CONFLICT:
                raise
            # It ends with its keeper, and is being removed for that.
            daemon.api.wait(container, condition="removed")


@cache
def read_program(name: str) -> str:
    """Return the text of a program that runs in containers, without the comments of a script: programs there see it in `ps`."""
    text = files("astuner_agents.docker").joinpath("programs", name).read_text(encoding="utf-8")
    if not name.endswith(".sh"):
        return text
    return "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))


def _give_up(daemon: Daemon, container: str, streams: list[socket.socket]) -> None:
    for stream in streams:
        stream.close()
    remove_container(daemon, container)


def _create(daemon: Daemon, options: DockerOptions, image: str, labels: Mapping[str, str]) -> str:
    """Create a container, with a limit of the storage driver if it has one."""
    from docker.errors import APIError, ImageNotFound

    with daemon.explain(f"no container of the image {image} can be made"):
        try:
            return _create_with(daemon, options, image, labels, {"size": str(options.max_disk_bytes)})
        except ImageNotFound as error:
            raise ServiceUnavailable(describe_missing(image)) from error
        except APIError as error:
            # Only some drivers, on some file systems, have a limit; each says so in its own words.
            if not any(word in str(error.explanation).lower() for word in ("storage", "quota")):
                raise
        return _create_with(daemon, options, image, labels, None)


def _create_with(
    daemon: Daemon, options: DockerOptions, image: str, labels: Mapping[str, str], storage: Mapping[str, str] | None
) -> str:
    limits = {"fsize": options.max_disk_bytes, "core": 0}
    if options.max_cpu_s is not None:
        limits["cpu"] = options.max_cpu_s
    host = daemon.api.create_host_config(
        auto_remove=True,
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        nano_cpus=int(options.cpus * 1e9),
        mem_limit=options.max_memory_bytes,
        memswap_limit=options.max_memory_bytes,
        pids_limit=options.max_processes + RESERVE,
        ulimits=[{"Name": name, "Soft": most, "Hard": most} for name, most in limits.items()],
        storage_opt=storage,
        log_config={"Type": "none"},
        runtime=options.runtime,
    )
    made: str = daemon.api.create_container(
        image,
        entrypoint=["/bin/sh", "-c", read_program("keeper.sh")],
        command=[],
        # It ends when the connection that holds its stdin does.
        stdin_open=True,
        user=options.user,
        working_dir="/",
        hostname="sandbox",
        labels=dict(labels),
        host_config=host,
        healthcheck={"test": ["NONE"]},
    )["Id"]
    return made


def _read_user(keeper: socket.socket, image: str) -> tuple[int, int]:
    line, said = read_line(keeper)
    match line.split():
        case [b"ready", uid, gid] if uid.isdigit() and gid.isdigit():
            return int(uid), int(gid)
        case [b"ready"]:
            # Without a program `id` there is hardly a user but root.
            return 0, 0
    text = said.decode(errors="replace").strip() or line.decode(errors="replace")
    raise ServiceUnavailable(f"a container of the image {image} ended at its start{f': {text}' if text else ''}")


def _check_relay(relay: socket.socket, image: str) -> None:
    line, said = read_line(relay)
    if line == b"none":
        raise ServiceUnavailable(
            f"the image {image} has neither python3 nor node, one of which passes the calls of programs on to the gateway: "
            "install one of them in the image"
        )
    if line != b"ready":
        text = said.decode(errors="replace").strip()[-500:]
        raise ServiceUnavailable(f"the relay to the gateway ended at its start in the image {image}: {text}")


def describe_missing(image: str) -> str:
    """Return the problem with an image that the daemon lacks."""
    return f"the Docker daemon has no image {image}: docker pull {image}, or set astuner.sandbox.docker.pull to missing"
