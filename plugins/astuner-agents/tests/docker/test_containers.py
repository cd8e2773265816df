"""What only containers do: limits of the kernel, images of tasks, users, and what ends too early."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from engine_stand_in import StandIn
from machine_image import IMAGE, WITHOUT_INTERPRETER

from astuner.contract.errors import PluginError, ServiceUnavailable
from astuner.contract.protocols import CommandResult, SandboxSession, SandboxSpec
from astuner_agents.docker import DockerOptions, DockerSandboxes
from astuner_agents.docker.container import remove_container
from astuner_agents.docker.daemon import Daemon

BOTH = pytest.mark.usefixtures("any_daemon")
"""Holds with the stand-in too."""

T = TypeVar("T")


@asynccontextmanager
async def opened(spec: SandboxSpec | None = None, **options: Any) -> AsyncIterator[SandboxSession]:
    sandboxes = DockerSandboxes(DockerOptions(**{"image": IMAGE, "warm": 0, **options}))
    try:
        session = await sandboxes.open(spec or SandboxSpec(episode_id="e"))
        yield session
        await session.close()
    finally:
        await sandboxes.close()


def play(work: Callable[[SandboxSession], Awaitable[T]], **options: Any) -> T:
    async def run() -> T:
        async with opened(**options) as session:
            return await work(session)

    return asyncio.run(run())


def run_script(script: str, **options: Any) -> CommandResult:
    return play(lambda session: session.run(["/bin/sh", "-c", script], timeout_s=50), **options)


def list_containers() -> list[Any]:
    daemon = Daemon(None)
    try:
        found: list[Any] = daemon.api.containers(all=True, filters={"label": ["astuner.owner"]})
        return found
    finally:
        daemon.close()


@BOTH
def test_a_fork_bomb_is_ended() -> None:
    result = run_script("while :; do sleep 1000 & done", max_processes=60)
    assert result.killed_by == "processes"


@BOTH
def test_a_full_disk_ends_the_command() -> None:
    result = run_script("for i in $(seq 9); do head -c 3000000 /dev/zero > /tmp/$i; done; sleep 1000", max_disk_bytes=10_000_000)
    assert result.killed_by == "disk"


@BOTH
def test_a_file_that_is_too_large_ends_the_command() -> None:
    assert run_script("exec head -c 30000000 /dev/zero > big", max_disk_bytes=10_000_000).killed_by == "disk"


@pytest.mark.docker
@pytest.mark.usefixtures("real_daemon")
def test_memory_is_limited_and_the_reason() -> None:
    async def work(session: SandboxSession) -> list[CommandResult]:
        hungry = await session.run(["python3", "-c", "bytearray(10**9)[::4096] = bytes(244141)"], timeout_s=50)
        return [hungry, await session.run(["/bin/sh", "-c", "kill -9 $$"]), await session.run(["echo", "on"])]

    hungry, killed, after = play(work, max_memory_bytes=100_000_000)
    assert (hungry.killed_by, killed.killed_by, after.stdout) == ("memory", None, "on\n")


@BOTH
def test_programs_have_no_capabilities_and_the_user_of_the_yaml() -> None:
    result = run_script("id -u; id -g; grep CapEff /proc/self/status; stat -c %u $PWD $HOME; touch /x", user="1234:55")
    assert result.stdout.split() == ["1234", "55", "CapEff:", "0000000000000000", "1234", "1234"]
    assert result.exit_code != 0


@BOTH
def test_files_belong_to_the_user() -> None:
    async def work(session: SandboxSession) -> tuple[CommandResult, Mapping[str, bytes]]:
        await session.write_files({"a/b.sh": "#!/bin/sh\necho ran > out.txt\nrm a/b.sh\n"})
        result = await session.run(["a/b.sh"])
        return result, await session.read_files(["out.txt", "missing/*.txt"], max_bytes=10)

    result, found = play(work, user="1234")
    assert (result.exit_code, dict(found)) == (0, {"out.txt": b"ran\n"})


@pytest.mark.docker
@pytest.mark.usefixtures("real_daemon")
def test_a_task_names_its_image() -> None:
    def look(session: SandboxSession) -> Awaitable[CommandResult]:
        return session.run(["/bin/sh", "-c", "ls /usr/local/bin"])

    assert "python3" in play(look).stdout
    with pytest.raises(ServiceUnavailable, match="has neither python3 nor node"):
        play(look, spec=SandboxSpec(episode_id="e", image=WITHOUT_INTERPRETER))
    with pytest.raises(ServiceUnavailable, match=r"has no image astuner-tests:none: docker pull astuner-tests:none"):
        play(look, spec=SandboxSpec(episode_id="e", image="astuner-tests:none"), pull="never")


@BOTH
def test_a_task_asks_for_its_directories_and_user() -> None:
    def look(session: SandboxSession) -> Awaitable[CommandResult]:
        return session.run(["/bin/sh", "-c", "pwd; id -u; touch /deep/er/x /logs/y && echo written"])

    spec = SandboxSpec(episode_id="e", workdir="/app", directories=("/logs", "/deep/er"), user="1234", cpus=0.5, memory_mb=64)
    assert play(look, spec=spec, warm=1).stdout.split() == ["/app", "1234", "written"]


@BOTH
def test_what_no_container_has_is_an_error_of_the_episode() -> None:
    with pytest.raises(ServiceUnavailable, match="no container is as the task asks for it: 'workdir' must be an absolute path"):
        play(lambda session: session.run(["true"]), spec=SandboxSpec(episode_id="e", workdir="app"))


@BOTH
def test_without_an_image_an_episode_fails() -> None:
    with pytest.raises(ServiceUnavailable, match=r"names no image \(docker_image of its metadata\), and astuner.sandbox.docker"):
        run_script("true", image=None)


@pytest.mark.docker
@pytest.mark.usefixtures("real_daemon")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"image": "astuner-tests:none", "pull": "never"}, "has no image astuner-tests:none: docker pull"),
        ({"image": WITHOUT_INTERPRETER}, "has neither python3 nor node"),
        ({"image": IMAGE, "user": "nobody-here"}, "nobody-here"),
        ({"image": IMAGE, "runtime": "no-such-runtime"}, "no-such-runtime"),
        ({"image": "astuner-tests/none:1", "pull": "missing"}, "the image astuner-tests/none:1 cannot be pulled"),
    ],
)
def test_what_cannot_work_is_reported_before_the_first_episode(options: Any, words: str) -> None:
    with pytest.raises(PluginError, match=r"^the sandbox 'docker' cannot be used: ") as caught:
        DockerSandboxes(DockerOptions(**options)).check()
    assert words in str(caught.value)
    assert list_containers() == []


@BOTH
def test_programs_are_looked_for_in_the_image() -> None:
    sandboxes = DockerSandboxes(DockerOptions(image=IMAGE))
    sandboxes.check()
    found = [sandboxes.find_program(name) for name in ("python3", "export", "no-such-program", "/a/b")]
    assert found == [True, False, False, None]
    assert IMAGE in str(sandboxes.suggest_program("no-such-program"))


@BOTH
def test_a_program_that_ends_what_leads_it_is_that_programs_matter() -> None:
    async def work(session: SandboxSession) -> list[CommandResult]:
        hostile = ["/bin/sh", "-c", "(setsid sleep 1000 &); kill -9 -1; kill -9 1; echo on; exit 3"]
        return [await session.run(hostile, timeout_s=30), await session.run(["echo", "after"])]

    hostile, after = play(work)
    assert (hostile.stdout, after.stdout) == ("on\n", "after\n")


@BOTH
def test_a_container_that_is_removed_from_outside_is_the_reason() -> None:
    async def work(session: SandboxSession) -> None:
        running = asyncio.ensure_future(session.run(["sleep", "1000"]))
        await asyncio.sleep(1)
        daemon = Daemon(None)
        for one in list_containers():
            remove_container(daemon, one["Id"])
        daemon.close()
        await running

    with pytest.raises(ServiceUnavailable, match="container"):
        play(work)


@BOTH
def test_what_a_killed_run_has_left_is_removed() -> None:
    daemon = Daemon(None)
    labels = {"astuner.owner": f"{2**31 - 1}-5", "astuner.machine": _find_machine()}
    daemon.api.create_container(IMAGE, ["sleep", "1000"], labels=labels)
    run_script("true")
    assert [one["Id"] for one in list_containers()] == []
    daemon.close()


@BOTH
def test_the_container_ends_with_the_process_that_opened_it() -> None:
    code = (
        "import asyncio, os, json, sys\n"
        "from astuner_agents.docker import DockerOptions, DockerSandboxes\nfrom astuner.contract.protocols import SandboxSpec\n"
        "async def main():\n"
        "    sandboxes = DockerSandboxes(DockerOptions(**json.loads(sys.argv[1])))\n"
        "    await sandboxes.open(SandboxSpec(episode_id='e'))\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())"
    )
    subprocess.run([sys.executable, "-c", code, json.dumps({"image": IMAGE, "warm": 2})], check=False)
    asyncio.run(_wait_until_gone())


async def _wait_until_gone() -> None:
    for _ in range(300):
        if not [one for one in list_containers() if one["State"] == "running"]:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"left: {list_containers()}")


def _find_machine() -> str:
    from astuner_agents.docker.sandboxes import _name_machine

    return _name_machine()


@pytest.mark.docker
@pytest.mark.usefixtures("real_daemon")
def test_an_ordinary_user_is_told_about_the_socket() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    code = (
        "import os, sys; from astuner_agents.docker.daemon import Daemon\n"
        "from astuner.contract.errors import ServiceUnavailable\n"
        "import docker, requests; daemon = Daemon(None)\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: daemon.api\nexcept ServiceUnavailable as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "this user may not open the socket of the Docker daemon" in said.stdout, said


def test_a_daemon_that_ends_in_the_middle_is_the_reason(stand_in: StandIn) -> None:
    async def work(session: SandboxSession) -> None:
        running = asyncio.ensure_future(session.run(["sleep", "1000"]))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(stand_in.end)
        Path(os.environ["DOCKER_HOST"].removeprefix("unix://")).unlink()
        await running

    with pytest.raises(ServiceUnavailable, match=r"^no Docker daemon answers at unix:///.*: start it \(systemctl start docker\)"):
        play(work)


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (
            "unix:///nowhere/docker.sock",
            "no Docker daemon answers at unix:///nowhere/docker.sock (No such file or directory): start",
        ),
        ("tcp://127.0.0.1:1", "no Docker daemon answers at tcp://127.0.0.1:1 (Connection refused): start it"),
        ("ssh://somewhere", "the Docker daemon at ssh://somewhere cannot be used: give one with a Unix socket"),
    ],
)
def test_a_daemon_that_does_not_answer_is_reported_before_the_first_episode(host: str, words: str) -> None:
    with pytest.raises(PluginError) as caught:
        DockerSandboxes(DockerOptions(image=IMAGE, host=host)).check()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workdir": "work"}, "'workdir' must be an absolute path in the container"),
        ({"home": "/"}, "'home' must be an absolute path in the container"),
        ({"cpus": 0.0}, "'cpus' must be > 0"),
    ],
)
def test_options_are_checked(options: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DockerOptions(**options)
