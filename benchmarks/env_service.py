"""Many instances of `astuner env serve` at once, and what is left when a client or the server is killed in the middle.

`python benchmarks/env_service.py [--episodes 200] [--steps 3] [--env countdown]`. Everything runs on this machine over loopback;
client and server share its cores. Nothing waits for a model: a figure is the service's own cost.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
from attrs import frozen
from rich.console import Console
from rich.table import Table

from astuner.shared.processes.ports import free_port
from astuner_env_service.client import EnvServiceClient, EnvServiceFailed, Instance, Patience

LEFT_S = 10.0
"""After which a process of a dead server counts as left behind."""
TOKEN = "benchmark"
ACTION = {"role": "assistant", "content": "1 + 1"}
MIB = 2**20


@frozen
class Server:
    """A running `astuner env serve`."""

    process: subprocess.Popen[bytes]
    url: str

    def below(self) -> list[psutil.Process]:
        """The process that instances are forked from, and theirs."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def accounts(self) -> dict[str, int]:
        """What it says of its instances."""
        answer = httpx.get(f"{self.url}/envs", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
        return answer.json()["data"]["instances"]

    def cpu_s(self) -> float:
        """Of the server and the process that it forks from; instances that have ended are among the latter's children."""
        processes = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children()]
        return sum(sum(process.cpu_times()[:4]) for process in processes)


@contextlib.contextmanager
def serve(env: str, port: int, idle_timeout_s: float = 3600.0) -> Iterator[Server]:
    command = [sys.executable, "-m", "astuner", "env", "serve", "--env", env, "--port", str(port), "--set", "attempts=100"]
    command += ["--max-instances", "4096", "--idle-timeout-s", str(idle_timeout_s)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env={**os.environ, "ASTUNER_ENV_TOKEN": TOKEN}, stdout=log, stderr=log)
        server = Server(process, f"http://127.0.0.1:{port}")
        try:
            while not is_up(server):
                time.sleep(0.05)
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def is_up(server: Server) -> bool:
    try:
        return httpx.get(f"{server.url}/healthz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


async def episode(
    client: EnvServiceClient, number: int, args: argparse.Namespace, think_s: float = 0.0, stepped: set[int] | None = None
) -> float | EnvServiceFailed:
    """Return the score, or the failure that was said; `stepped` takes in the number after the first step."""
    instance = Instance(client, env_type=args.env, task_id=f"train-{number % 1000}")
    try:
        await instance.create()
        for _ in range(args.steps):
            await asyncio.sleep(think_s)
            await instance.step(ACTION)
            if stepped is not None:
                stepped.add(number)
        return await instance.evaluate()
    except EnvServiceFailed as failure:
        return failure
    finally:
        with contextlib.suppress(EnvServiceFailed):
            await instance.release()


async def throughput(server: Server, args: argparse.Namespace) -> Table:
    client = EnvServiceClient(server.url, token=TOKEN)
    alive = [Instance(client, env_type=args.env, task_id=f"train-{number % 1000}") for number in range(args.episodes)]
    table = Table(
        "phase", "requests", "wall s", "requests/s", "client CPU s", "server CPU s", title=f"{args.episodes} instances at once"
    )

    async def phase(name: str, calls: list[object], each: int = 1) -> None:
        began, mine, theirs = time.perf_counter(), time.process_time(), server.cpu_s()
        await asyncio.gather(*calls)  # type: ignore[call-overload]  # awaitables of several kinds
        wall_s, count = time.perf_counter() - began, len(calls) * each
        cpu_s = time.process_time() - mine, server.cpu_s() - theirs
        table.add_row(name, f"{count}", f"{wall_s:.2f}", f"{count / wall_s:.0f}", f"{cpu_s[0]:.2f}", f"{cpu_s[1]:.2f}")

    async def steps(instance: Instance) -> None:
        for _ in range(args.steps):
            await instance.step(ACTION)

    await phase("create", [instance.create() for instance in alive])
    resident = [process.memory_full_info().uss for process in server.below()[1:]]
    await phase("step", [steps(instance) for instance in alive], args.steps)
    await phase("evaluate", [instance.evaluate() for instance in alive])
    await phase("release", [instance.release() for instance in alive])
    await client.close()
    table.caption = (
        f"memory of an instance's own: {sum(resident) / len(resident) / MIB:.1f} MiB; processes left: {len(server.below()) - 1}"
    )
    return table


CLIENT = """
import argparse, asyncio, sys
sys.path.insert(0, sys.argv[1])
from env_service import EnvServiceClient, TOKEN, episode

async def main():
    args = argparse.Namespace(env=sys.argv[3], steps=2)
    client = EnvServiceClient(sys.argv[2], token=TOKEN)
    await asyncio.gather(*(episode(client, number, args, think_s=600.0) for number in range(int(sys.argv[4]))))

asyncio.run(main())
"""


def client_killed(args: argparse.Namespace) -> list[str]:
    with serve(args.env, free_port(), idle_timeout_s=5.0) as server:
        here = str(Path(__file__).parent)
        client = subprocess.Popen([sys.executable, "-c", CLIENT, here, server.url, args.env, str(args.episodes)])
        while server.accounts()["alive"] < args.episodes:
            time.sleep(0.05)
        client.kill()
        client.wait()
        while server.accounts()["alive"]:
            time.sleep(0.2)
        accounts = server.accounts()
        ended = accounts["idle"] + accounts["released"]
        return ["client killed", f"{args.episodes}", "-", "-", f"{accounts['created']} / {ended}", f"{len(server.below()) - 1}"]


async def server_killed(args: argparse.Namespace) -> list[str]:
    port = free_port()
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(serve(args.env, port))
        client = EnvServiceClient(first.url, token=TOKEN, patience=Patience(max_retries=20))
        stepped: set[int] = set()
        half = args.episodes // 2

        def begin_server(numbers: range) -> list[asyncio.Task[float | EnvServiceFailed]]:
            return [asyncio.create_task(episode(client, number, args, 1.0, stepped)) for number in numbers]

        # One half is in the middle of its episodes when the server goes, the other finds none there and waits for the next one.
        crowd = begin_server(range(half))
        while len(stepped) < half:
            await asyncio.sleep(0.05)
            for failed in (one for one in crowd if one.done() and isinstance(one.result(), EnvServiceFailed)):
                raise SystemExit(f"an episode failed before the server was killed: {failed.result()}")
        below = first.below()
        first.process.kill()
        first.process.wait()
        crowd += begin_server(range(half, args.episodes))
        again = await asyncio.to_thread(stack.enter_context, serve(args.env, port))
        ended = await asyncio.gather(*crowd)
        await client.close()
        lost = sum(isinstance(one, EnvServiceFailed) for one in ended)
        # They end by themselves, some hundreds of them a moment later.
        left = psutil.wait_procs(below, timeout=LEFT_S)[1] + again.below()[1:]
        accounts = again.accounts()
        row = ["server killed and restarted", f"{len(ended)}", f"{len(ended) - lost}", f"{lost}"]
        return [*row, f"{accounts['created']} / {accounts['released']}", f"{len(left)}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=200, help="instances at once")
    parser.add_argument("--steps", type=int, default=3, help="steps of an episode")
    parser.add_argument("--env", default="countdown", help="an environment with the option `attempts`")
    args = parser.parse_args()
    console = Console()
    with serve(args.env, free_port()) as server:
        console.print(asyncio.run(throughput(server, args)))
    faults = Table(
        "fault", "episodes", "scored", "failed, and said so", "created / ended", "processes left", title="Faults in the middle"
    )
    faults.add_row(*client_killed(args))
    faults.add_row(*asyncio.run(server_killed(args)))
    console.print(faults)


if __name__ == "__main__":
    main()
