"""Directories of a sandbox at absolute paths of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from astuner.contract.errors import PluginError
from astuner.contract.protocols import Sandboxes, SandboxSession, SandboxSpec, SandboxTraits, read_traits
from astuner_agents.sandboxes.bubblewrap import BubblewrapSandboxes
from astuner_agents.sandboxes.local import LocalSandboxes

SPEC = SandboxSpec(episode_id="a", workdir="/app", directories=("/tests", "/deep/er"))


@pytest.fixture
def sandboxes(tmp_path: Path) -> BubblewrapSandboxes:
    made = BubblewrapSandboxes(BubblewrapSandboxes.Options(directory=str(tmp_path), warm=0, max_disk_bytes=10_000_000))
    try:
        made.check()
    except PluginError:
        pytest.skip("bubblewrap cannot be used here")
    return made


def use(sandboxes: Sandboxes, spec: SandboxSpec, play: Callable[[SandboxSession], Awaitable[None]]) -> None:
    async def run() -> None:
        try:
            session = await sandboxes.open(spec)
            try:
                await play(session)
            finally:
                await session.close()
        finally:
            await sandboxes.close()

    asyncio.run(run())


def test_bubblewrap_shows_them_and_programs_write_there(sandboxes: BubblewrapSandboxes, tmp_path: Path) -> None:
    async def play(session: SandboxSession) -> None:
        assert session.workdir == "/app"
        await session.write_files({"given.txt": "1"})
        line = (
            "pwd; cat given.txt; echo 2 > /tests/two; echo 3 > /deep/er/three; cat /tests/two /deep/er/three; echo 4 > made.txt"
        )
        result = await session.run(["sh", "-c", line])
        assert (result.stdout.split(), result.stderr) == (["/app", "12", "3"], "")
        assert await session.read_files(["*.txt"], max_bytes=100) == {"given.txt": b"1", "made.txt": b"4\n"}

    use(sandboxes, SPEC, play)
    assert list(tmp_path.iterdir()) == []


def test_their_files_count(sandboxes: BubblewrapSandboxes) -> None:
    async def play(session: SandboxSession) -> None:
        line = "for one in 1 2 3; do head -c 9000000 /dev/zero > /tests/$one; done; sleep 1000"
        assert (await session.run(["sh", "-c", line], timeout_s=100)).killed_by == "disk"

    use(sandboxes, SPEC, play)


def test_the_working_directory_holds_nothing_of_the_machine(tmp_path: Path) -> None:
    shown = BubblewrapSandboxes(BubblewrapSandboxes.Options(directory=str(tmp_path), warm=0, read_only=("/work/data",)))
    assert shown.wrap(tmp_path).workdir == "/workdir"


@pytest.mark.parametrize("path", ["/usr/own", "/etc", "/", "relative", "/tmp", "/home", "/proc/own"])
def test_one_that_is_taken_is_refused(sandboxes: BubblewrapSandboxes, path: str, tmp_path: Path) -> None:
    async def play(session: SandboxSession) -> None:
        raise AssertionError("it was opened")

    with pytest.raises(ValueError, match=f"cannot show a separate directory at {path}: "):
        use(sandboxes, SandboxSpec(episode_id="a", workdir="/app", directories=(path,)), play)
    assert list(tmp_path.iterdir()) == []


def test_a_kind_that_does_not_honour_them_has_its_own(tmp_path: Path) -> None:
    async def play(session: SandboxSession) -> None:
        assert session.workdir.startswith(str(tmp_path))

    assert read_traits(LocalSandboxes, SandboxTraits).honours == frozenset()
    use(LocalSandboxes(LocalSandboxes.Options(directory=str(tmp_path))), SPEC, play)
