"""Instances end on every path: no process is left, and the server's accounts say what became of each."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys

import psutil
import pytest

from astuner.shared.processes.process_members import is_living
from astuner_devkit.waiting import until, until_so
from astuner_env_service.client import EnvServiceClient, EnvServiceFailed, Instance, Patience
from astuner_envs.worlds.countdown import Countdown, make_puzzle

TOKEN = "a-token-of-the-tests"
ACTION = {"role": "assistant", "content": "1 + 1"}
EPISODES = 200


@contextlib.asynccontextmanager
async def client_of(url, **patience):
    client = EnvServiceClient(url, token=TOKEN, patience=Patience(**{"first_pause_s": 0.05, "timeout_s": 60, **patience}))
    try:
        yield client
    finally:
        await client.close()


async def play(client, number, *, steps=2, pause_s=0.0, meet=None, stepped=None):
    """Play one episode, the last step of which is the solution; return its score, or what went wrong."""
    task_id = f"train-{number}"
    instance = Instance(client, env_type="countdown", task_id=task_id)
    try:
        await instance.create()
        if meet is not None:
            # All are there, and are counted before any goes on.
            await meet.wait()
            await meet.wait()
        for _ in range(steps - 1):
            await instance.step(ACTION)
            if stepped is not None:
                stepped.append(number)
            await asyncio.sleep(pause_s)
        await instance.step({**ACTION, "content": make_puzzle(task_id, Countdown.Options()).solution})
        return await instance.evaluate()
    except EnvServiceFailed as failure:
        return failure
    finally:
        # A server that is down for longer than a release waits has no instance any more either.
        with contextlib.suppress(EnvServiceFailed):
            await instance.release()


@pytest.mark.asyncio
async def test_many_instances_at_once_all_end(serve):
    server = serve("--env", "countdown")
    everybody = asyncio.Barrier(EPISODES + 1)
    async with client_of(server.url) as client:
        crowd = [asyncio.create_task(play(client, number, meet=everybody)) for number in range(EPISODES)]
        # One that fails before it has met the others would have them wait for ever.
        async with asyncio.timeout(120):
            await everybody.wait()
            counted = len(server.processes()), server.accounts()["alive"]
            await everybody.wait()
        scores = await asyncio.gather(*crowd)
    assert counted == (EPISODES, EPISODES)
    assert scores == [1.0] * EPISODES
    until(lambda: server.processes() == [])
    assert server.accounts() == {"created": EPISODES, "released": EPISODES, "most": 256}


@pytest.mark.asyncio
async def test_where_all_places_are_taken_clients_wait_for_one(serve):
    server = serve("--env", "countdown", "--max-instances", 3)
    async with client_of(server.url, max_retries=0, place_timeout_s=0) as impatient:
        taken = [Instance(impatient, env_type="countdown", task_id="train-0") for _ in range(4)]
        await asyncio.gather(*(instance.create() for instance in taken[:3]))
        with pytest.raises(EnvServiceFailed, match=r"answered 503: all 3 instances are in use \(--max-instances\)"):
            await taken[3].create()
        async with client_of(server.url, max_retries=0) as patient:
            waiting = asyncio.create_task(play(patient, 1))
            await asyncio.sleep(0.1)
            await asyncio.gather(*(instance.release() for instance in taken))
            assert await waiting == 1.0
    assert server.accounts() == {"created": 4, "released": 4, "most": 3}


CLIENT = """
import asyncio, sys
from astuner_env_service.client import EnvServiceClient, Instance

async def main():
    client = EnvServiceClient(sys.argv[1], token=sys.argv[2])
    alive = [Instance(client, env_type="countdown", task_id=f"train-{n}", heartbeat_s=0.2) for n in range(20)]
    await asyncio.gather(*(instance.create() for instance in alive))
    await asyncio.gather(*(instance.step({"content": "1"}) for instance in alive))
    print("playing", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_the_instances_of_a_killed_client_end_when_they_are_idle(serve):
    server = serve("--env", "countdown", "--idle-timeout-s", 6)
    client = subprocess.Popen([sys.executable, "-c", CLIENT, server.url, TOKEN], stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    with client.stdout:
        assert client.stdout.readline() == "playing\n"
    try:
        # Heartbeats keep them for longer than an idle one is kept.
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(8)
        assert len(server.processes()) == 20
    finally:
        client.kill()
        client.wait()
    until(lambda: not server.processes())
    assert server.accounts() == {"created": 20, "idle": 20, "most": 256}


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_with_the_server_all_its_processes_end(serve, end):
    server = serve("--env", "countdown", "--env", "calculator")
    for number in range(5):
        server.data("create", env_type="countdown", task_id=f"train-{number}")
    below = psutil.Process(server.process.pid).children(recursive=True)
    assert len(below) == 6
    server.process.send_signal(end)
    server.process.wait(30)
    assert server.process.returncode == (-9 if end is signal.SIGKILL else 0)
    until(lambda: not any(map(is_living, below)))
    assert "Traceback" not in server.said


def test_where_the_process_that_forks_is_killed_another_one_takes_over(serve):
    server = serve("--env", "countdown", "--idle-timeout-s", 4)
    instance_id = server.data("create", env_type="countdown", task_id="train-0")["info"]["instance_id"]
    below = psutil.Process(server.process.pid).children(recursive=True)
    psutil.Process(server.process.pid).children()[0].kill()
    until(lambda: not any(map(is_living, below)))
    lost = server.post("step", instance_id=instance_id, messages=ACTION)
    assert lost.status_code in (400, 500)
    other = server.data("create", env_type="countdown", task_id="train-1")["info"]["instance_id"]
    server.data("step", instance_id=other, messages=ACTION)
    server.post("release", instance_id=other)
    assert server.accounts() == {"created": 2, "lost": 1, "released": 1, "most": 256}


def test_an_instance_whose_process_was_killed_is_counted_as_lost(serve):
    server = serve("--env", "countdown", "--idle-timeout-s", 4)
    server.data("create", env_type="countdown", task_id="train-0", instance_id="a")
    server.processes()[0].kill()
    until(lambda: server.accounts() == {"created": 1, "lost": 1, "most": 256})
    answer = server.post("step", instance_id="a", messages=ACTION)
    assert "its process has ended" in answer.json()["detail"] or "was killed" in answer.json()["detail"]


@pytest.mark.asyncio
async def test_when_the_server_is_killed_and_restarted_every_episode_is_accounted_for(serve, unused_tcp_port):
    server = serve("--env", "countdown", "--port", unused_tcp_port)
    async with client_of(server.url, max_retries=30) as client:
        stepped = []
        crowd = [asyncio.create_task(play(client, number, steps=3, pause_s=0.5, stepped=stepped)) for number in range(60)]
        await until_so(lambda: len(stepped) >= 30)
        below = psutil.Process(server.process.pid).children(recursive=True)
        server.process.kill()
        server.process.wait()
        late = [asyncio.create_task(play(client, number)) for number in range(60, 80)]
        await asyncio.sleep(0.2)
        again = await asyncio.to_thread(serve, "--env", "countdown", "--port", unused_tcp_port)
        ended = await asyncio.gather(*crowd, *late)
    until(lambda: not any(map(is_living, below)))
    lost = [one for one in ended if isinstance(one, EnvServiceFailed)]
    assert lost
    assert [one for one in ended if one not in lost] == [1.0] * (80 - len(lost))
    assert ended[60:] == [1.0] * 20
    assert all("/step" in str(one) or "/evaluate" in str(one) for one in lost), set(map(str, lost))
    accounts = again.accounts()
    assert accounts["created"] == accounts["released"]
    until(lambda: again.processes() == [])


@pytest.mark.asyncio
async def test_a_step_whose_answer_is_lost_on_the_way_is_taken_once(countdown):
    lost = []

    async def carry(reader, writer):
        """Pass a request on, and drop the first answer to each different one."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        request = head + await reader.readexactly(length)
        host, port = countdown.url.removeprefix("http://").split(":")
        to_reader, to_writer = await asyncio.open_connection(host, int(port))
        to_writer.write(request)
        answer = await to_reader.readuntil(b"\r\n\r\n")
        size = next(int(line.split(b":")[1]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length"))
        answer += await to_reader.readexactly(size)
        to_writer.close()
        if request in lost:
            writer.write(answer)
        lost.append(request)
        writer.close()

    proxy = await asyncio.start_server(carry, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    before = countdown.accounts().get("created", 0)
    async with client_of(f"http://127.0.0.1:{port}") as client:
        instance = Instance(client, env_type="countdown", task_id="train-0")
        await instance.create()
        await instance.step(ACTION)
        steps = (await client.info(instance.id))["steps"]
        await instance.step(ACTION)
        assert (steps, (await client.info(instance.id))["steps"]) == (1, 2)
        await instance.release()
    proxy.close()
    assert countdown.accounts()["created"] == before + 1
    assert len([request for request in lost if request.startswith(b"POST /step")]) == 4
