"""The server's end of the process that forks: one order after the other, also where somebody no longer waits."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import psutil
import pytest

from astuner.contract.schema import Task
from astuner.shared.processes.process_members import is_living
from astuner_devkit.waiting import until_so
from astuner_envs.server.faults import ServerFull
from astuner_envs.server.forking import Forking
from astuner_envs.server.instance import Channel
from astuner_envs.server.instances import Instances
from astuner_envs.server.settings import Limits, ServedWorld, Settings


@contextlib.asynccontextmanager
async def started():
    settings = Settings(worlds=(ServedWorld(name="countdown"),), config_dir=Path.cwd())
    forking = Forking(settings)
    await forking.start()
    try:
        yield settings, forking
    finally:
        await forking.close()


@pytest.mark.asyncio
async def test_an_order_whose_giver_was_cancelled_does_not_answer_the_next_one():
    async with started() as (_, forking):
        for _ in range(5):
            cancelled = asyncio.create_task(forking.fork(0))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            cancelled.cancel()
            pid, ours = await forking.fork(0)
            assert await forking.end(pid) == -9
            ours.close()
        assert forking._process is not None
        zygote = psutil.Process(forking._process.pid)
        # Those that nobody took have ended too.
        await until_so(lambda: not any(map(is_living, zygote.children())))


@pytest.mark.asyncio
async def test_a_question_whose_asker_was_cancelled_does_not_answer_the_next_one():
    async with started() as (_, forking):
        channel = Channel(forking, Limits())
        await channel.open(0)
        asked = asyncio.create_task(channel.ask("tasks", split="train"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asked.cancel()
        assert len(await channel.ask("tasks", split="validation")) == 100
        await channel.end()


@pytest.mark.asyncio
async def test_a_socket_that_cannot_be_passed_on_is_one_requests_failure(monkeypatch):
    async with started() as (_, forking):
        pid, ours = await forking.fork(0)

        def refuse(*_):
            raise OSError(109, "Too many references: cannot splice")

        with monkeypatch.context() as patched:
            patched.setattr("socket.send_fds", refuse)
            with pytest.raises(ServerFull, match="Too many references"):
                await forking.fork(0)
        assert psutil.pid_exists(pid)
        other, theirs = await forking.fork(0)
        assert [await forking.end(one) for one in (pid, other)] == [-9, -9]
        ours.close()
        theirs.close()


@pytest.mark.asyncio
async def test_whatever_keeps_an_instance_from_beginning_it_is_accounted_for(monkeypatch):
    async with started() as (settings, forking):
        instances = Instances(settings, forking)

        async def fail(_):
            raise LookupError("something else")

        monkeypatch.setattr(forking, "fork", fail)
        with pytest.raises(LookupError):
            await instances.create(0, Task(task_id="train-0", env_type="countdown"), "a")
        assert {name: count for name, count in instances.accounts.items() if count} == {"created": 1, "refused": 1}
