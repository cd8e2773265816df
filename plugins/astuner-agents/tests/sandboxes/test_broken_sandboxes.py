"""Sandboxes that each break one rule of the contract."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.protocols import CommandResult, SandboxSession, SandboxSpec, SandboxTraits
from astuner_agents.sandboxes.local import LocalSandboxes
from astuner_devkit.contracts import Contract, SandboxContract, list_rules

started: list[subprocess.Popen[bytes]] = []
opened: list[Any] = []


class Passing(SandboxSession):
    """Passes everything on to a session of `local`."""

    def __init__(self, inner: SandboxSession) -> None:
        self.inner = inner
        self.workdir, self.home, self.gateway_url = inner.workdir, inner.home, inner.gateway_url

    async def write_files(self, files: Mapping[str, str | bytes]) -> None:
        await self.inner.write_files(files)

    async def run(self, command: Sequence[str], **given: Any) -> CommandResult:
        return await self.inner.run(command, **given)

    async def read_files(self, patterns: Sequence[str], *, max_bytes: int) -> Mapping[str, bytes]:
        return await self.inner.read_files(patterns, max_bytes=max_bytes)

    async def close(self) -> None:
        await self.inner.close()


class Good(LocalSandboxes):
    session: type[Passing] = Passing

    async def open(self, spec: SandboxSpec) -> SandboxSession:
        return self.session(await super().open(spec))


class BeginsWithFiles(Good):
    class session(Passing):
        async def run(self, command: Sequence[str], **given: Any) -> CommandResult:
            Path(self.workdir, ".cache").touch()
            return await super().run(command, **given)


class DropsBytes(Good):
    class session(Passing):
        async def read_files(self, patterns: Sequence[str], *, max_bytes: int) -> Mapping[str, bytes]:
            found = await super().read_files(patterns, max_bytes=max_bytes)
            return {path: content.decode(errors="ignore").encode() for path, content in found.items()}


class FollowsLinks(Good):
    class session(Passing):
        async def read_files(self, patterns: Sequence[str], *, max_bytes: int) -> Mapping[str, bytes]:
            found = sorted(path for pattern in patterns for path in Path(self.workdir).glob(pattern) if path.is_file())
            return {str(path.relative_to(self.workdir)): path.read_bytes() for path in found}


class WritesAnywhere(Good):
    class session(Passing):
        async def write_files(self, files: Mapping[str, str | bytes]) -> None:
            await self.inner.write_files({path: content for path, content in files.items() if not path.startswith(("/", "."))})


class ReadsTooMuch(Good):
    class session(Passing):
        async def read_files(self, patterns: Sequence[str], *, max_bytes: int) -> Mapping[str, bytes]:
            return await super().read_files(patterns, max_bytes=max_bytes * 1000)


class HidesExitCodes(Good):
    class session(Passing):
        async def run(self, command: Sequence[str], **given: Any) -> CommandResult:
            return evolve(await super().run(command, **given), exit_code=0)


class LeaksVariables(Good):
    class session(Passing):
        async def run(self, command: Sequence[str], **given: Any) -> CommandResult:
            return await super().run(command, **{**given, "env": {**os.environ, **(given.get("env") or {})}})


class ExitsWith127(Good):
    class session(Passing):
        async def run(self, command: Sequence[str], **given: Any) -> CommandResult:
            try:
                return await super().run(command, **given)
            except OSError as error:
                return CommandResult(exit_code=127, stdout="", stderr=str(error))


class KnowsNoTime(Good):
    class session(Passing):
        async def run(self, command: Sequence[str], **given: Any) -> CommandResult:
            found = await super().run(command, **given)
            return evolve(found, killed_by=None) if found.timed_out else found


class KeepsEverything(Good):
    class session(Passing):
        async def run(self, command: Sequence[str], **given: Any) -> CommandResult:
            return await super().run(command, **{**given, "max_output_bytes": 10**6})


class LeavesProcesses(Good):
    """Starts commands itself, and ends only the first process."""

    class session(Passing):
        async def run(self, command: Sequence[str], **given: Any) -> CommandResult:
            def start() -> CommandResult:
                done = subprocess.run(command, cwd=self.workdir, capture_output=True, text=True, check=False)
                return CommandResult(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)

            # What is left ends by itself after ten seconds.
            script = command[-1].replace("while :;", "for i in $(seq 100);").replace("done' &)", "done' >/dev/null 2>&1 &)")
            command = ["/bin/sh", "-c", script]
            return await asyncio.to_thread(start)


class SharesDirectories(Good):
    class session(Passing):
        async def write_files(self, files: Mapping[str, str | bytes]) -> None:
            for folder in Path(self.workdir).parents[1].glob("*/work"):
                for name, content in files.items():
                    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


class PromisesTooMuch(Good):
    traits = SandboxTraits(separates_files=True)


class PromisesNoNetwork(Good):
    traits = SandboxTraits(separates_network=True)


class LosesTheGateway(Good):
    class session(Passing):
        def __init__(self, inner: SandboxSession) -> None:
            super().__init__(inner)
            self.gateway_url = "http://127.0.0.1:9/v1"


class NeverCloses(Good):
    """What it has opened stays."""

    class session(Passing):
        async def close(self) -> None:
            opened.append(self.inner)

    async def close(self) -> None:
        opened.append(self)


class Survives(Good):
    """Starts a process next to each command, which outlives it."""

    class session(Passing):
        async def run(self, command: Sequence[str], **given: Any) -> CommandResult:
            env = {**os.environ, **(given.get("env") or {})}
            started.append(subprocess.Popen(["sleep", "20"], env=env, start_new_session=True, stdout=subprocess.DEVNULL))
            return await super().run(command, **given)


class NoSandboxes:
    async def open(self, spec: SandboxSpec) -> Any: ...

    async def close(self) -> None: ...


BROKEN = [
    (NoSandboxes, "test_it_makes_sandboxes", "must be a subclass of"),
    (BeginsWithFiles, "test_a_session_begins_empty", "in an empty `workdir`"),
    (DropsBytes, "test_files_go_in_and_out", "return the bytes of what matches"),
    (FollowsLinks, "test_paths_stay_inside", "read regular files only"),
    (WritesAnywhere, "test_paths_stay_inside", "raise ValueError"),
    (ReadsTooMuch, "test_reading_is_bounded", "max_bytes=1000) returned"),
    (HidesExitCodes, "test_a_command_is_reported", "a command gave (0,"),
    (LeaksVariables, "test_the_environment_is_clean", "pass on only a few"),
    (ExitsWith127, "test_what_does_not_exist_is_an_os_error", "raised no FileNotFoundError"),
    (KnowsNoTime, "test_time_is_limited", "killed_by is None"),
    (KeepsEverything, "test_output_is_bounded", "of output are kept, of 10000"),
    (LeavesProcesses, "test_nothing_runs_after_a_command", "end all that it started"),
    (Survives, "test_cancelling_ends_the_command", "end it in `close`"),
    (SharesDirectories, "test_siblings_are_apart", "begins with the files of another"),
    (PromisesTooMuch, "test_siblings_are_apart", "says `separates_files`"),
    (PromisesNoNetwork, "test_the_gateway_is_reached", "says `separates_network`"),
    (LosesTheGateway, "test_the_gateway_is_reached", "is not reached from inside"),
    (NeverCloses, "test_closing_leaves_nothing", "end it in `close`"),
    ("test_broken_sandboxes:Survives", "test_nothing_is_left_of_a_killed_run", "outlive the killed run"),
]


@pytest.fixture(autouse=True)
def end_leftovers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # The run that is killed imports this module.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    yield
    for process in started:
        process.kill()
        process.wait()

    async def close() -> None:
        for one in opened:
            await (LocalSandboxes.close(one) if isinstance(one, LocalSandboxes) else one.close())

    asyncio.run(close())
    started.clear()
    opened.clear()


def contract(sandboxes: Any) -> Any:
    return type("Rules", (SandboxContract,), {"component": sandboxes, "options": {"warm": 0}})()


@pytest.mark.parametrize(("sandboxes", "rule", "words"), BROKEN)
def test_a_broken_sandbox_breaks_its_rule(sandboxes: Any, rule: str, words: str, tmp_path: Path) -> None:
    check = getattr(contract(sandboxes), rule)
    with pytest.raises(AssertionError) as error:
        check(*[tmp_path] * len(inspect.signature(check).parameters))
    assert words in str(error.value)


def test_each_rule_has_a_broken_sandbox() -> None:
    assert {rule for _, rule, _ in BROKEN} == set(list_rules(SandboxContract)) - set(list_rules(Contract))


class TestGood(SandboxContract):
    component = Good
