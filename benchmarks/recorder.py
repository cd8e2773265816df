"""What recording costs: the gateway against a bare server with canned answers, rllm-model-gateway and a naive record.

All servers get the same conversations in turn, round after round, on the same HTTP stack; figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field
from traffic import Connection, chat, converse

HERE = Path(__file__).parent
TURNS = 10
WARM_UP = 2
"""Rounds that are not counted."""


@define(eq=False)
class Server:
    """One of the servers, in a process of its own."""

    name: str
    process: subprocess.Popen[str]
    port: int
    path: str
    keys: Sequence[str]
    ours: bool = True

    def cpu_s(self) -> float:
        """Return the CPU seconds that the process has used."""
        # The kernel's clock of another process; os.times() counts in hundredths of a second.
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def resident_bytes(self) -> int:
        """Return its resident set size."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def recorded(self) -> Mapping[str, int]:
        """Return how many calls and tokens it holds."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        found: Mapping[str, int] = json.loads(self.process.stdout.readline())
        return found

    async def play(
        self, conversations: int, concurrent: int, *, stream: bool = False, tools: bool = True
    ) -> list[tuple[float, float]]:
        """Hold conversations, some at a time, each of them after the other on one connection; short chats without `tools`."""

        async def client(number: int) -> list[tuple[float, float]]:
            path = self.path.format(session=f"s{number}")
            connection = Connection(self.port, path, self.keys[number % len(self.keys)])
            await connection.open()
            seconds = []
            for _ in range(conversations // concurrent):
                name = f"{number}-{time.perf_counter_ns()}"
                if tools:
                    seconds += await converse(connection, name, TURNS, stream=stream)
                else:
                    seconds += await chat(connection, name, TURNS)
            connection.close()
            return seconds

        return [took for found in await asyncio.gather(*map(client, range(concurrent))) for took in found]


@define(eq=False)
class Figures:
    """What a server took in each round."""

    p50_ms: list[float] = field(factory=list)
    cpu_ms: list[float] = field(factory=list)
    """Per call, of the process."""


@contextlib.contextmanager
def server(kind: str, *, episodes: int, delay_s: float = 0.0, max_model_len: int = 1_000_000) -> Iterator[Server]:
    """Run one of our servers."""
    command = [sys.executable, str(HERE / "recorder_servers.py"), kind, f"--episodes={episodes}", f"--delay-s={delay_s}"]
    command.append(f"--max-model-len={max_model_len}")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        said = json.loads(process.stdout.readline())
        yield Server(kind, process, said["port"], "/v1/chat/completions", said["keys"])
    finally:
        process.communicate(timeout=30)


@contextlib.contextmanager
def rllm(python: Path, delay_s: float) -> Iterator[Server]:
    """Run rllm-model-gateway before an inference server with canned answers; only the gateway's own CPU time is counted."""
    with server("upstream", episodes=1, delay_s=delay_s) as upstream, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [str(python), "-m", "rllm_model_gateway", "--host=127.0.0.1", f"--port={port}", "--store=memory"]
        command += ["--log-level=WARNING", f"--worker=http://127.0.0.1:{upstream.port}/v1"]
        process = subprocess.Popen(command, text=True)
        try:
            for _ in range(200):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.1)
            yield Server("rllm", process, port, "/sessions/{session}/v1/chat/completions", ["x"], ours=False)
        finally:
            process.terminate()
            process.wait(timeout=30)


@contextlib.contextmanager
def all_servers(python: Path | None, *, episodes: int, delay_s: float = 0.0) -> Iterator[list[Server]]:
    """Run the servers that are compared."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(server(kind, episodes=episodes, delay_s=delay_s)) for kind in ("stub", "gateway", "naive")]
        if python is not None:
            servers.append(stack.enter_context(rllm(python, delay_s)))
        yield servers


def compare(python: Path | None, *, conversations: Mapping[int, int], rounds: int, delay_s: float) -> list[dict[str, Any]]:
    """Return the latency and the CPU time per call of every server, and what they are above the stub's.

    `conversations`: how many are held in a round, by how many there are at a time. Servers, traffic and numbers take turns.
    """
    rows = []
    with all_servers(python, episodes=max(conversations), delay_s=delay_s) as servers:
        figures = {(each.name, tools, many): Figures() for many in conversations for tools in (False, True) for each in servers}
        for number in range(rounds + WARM_UP):
            for (name, tools, many), found in figures.items():
                each = next(each for each in servers if each.name == name)
                before = each.cpu_s()
                seconds = asyncio.run(each.play(conversations[many], many, tools=tools))
                if number >= WARM_UP:
                    found.cpu_ms.append(1e3 * (each.cpu_s() - before) / len(seconds))
                    found.p50_ms.append(1e3 * statistics.median(took for _, took in seconds))
        for (name, tools, many), found in figures.items():
            each, stub = next(each for each in servers if each.name == name), figures["stub", tools, many]
            # A proxy's engine serves requests as the stub does, so all that the proxy uses is added.
            base = stub.cpu_ms if each.ours else [0.0] * len(stub.cpu_ms)
            rows.append(
                {
                    "server": name,
                    "traffic": "tools" if tools else "chat",
                    "concurrent": many,
                    "delay_ms": 1e3 * delay_s,
                    "p50_ms": statistics.median(found.p50_ms),
                    "cpu_ms": statistics.median(found.cpu_ms),
                    "added_p50_ms": above(found.p50_ms, stub.p50_ms),
                    "added_cpu_ms": above(found.cpu_ms, base),
                }
            )
    return rows


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the servers side by side: CPU time above the stub, that in shares of the naive record's, and 256 against 16."""
    known = {(row["server"], row["traffic"], row["concurrent"]): row for row in rows}
    many = sorted({row["concurrent"] for row in rows})
    print(
        f"{'':<14}"
        + "".join(f"{f'at {number}: p50 ms':>16}{'CPU ms':>8}{'added':>7}{'/ naive':>9}" for number in many)
        + f"{'last / 16':>11}"
    )
    for name, traffic in dict.fromkeys((row["server"], row["traffic"]) for row in rows):
        line = f"{name:<8}{traffic:<6}"
        for number in many:
            row, naive = known[name, traffic, number], known["naive", traffic, number]
            share = row["added_cpu_ms"] / naive["added_cpu_ms"]
            line += f"{row['p50_ms']:>16.2f}{row['cpu_ms']:>8.2f}{row['added_cpu_ms']:>7.2f}{share:>9.2f}"
        print(f"{line}{known[name, traffic, many[-1]]['cpu_ms'] / known[name, traffic, 16]['cpu_ms']:>11.2f}")


def above(figures: Sequence[float], base: Sequence[float]) -> float:
    """Return the median over the rounds of what a figure is above another."""
    return statistics.median(mine - theirs for mine, theirs in zip(figures, base, strict=True))


def measure_streaming(rounds: int) -> dict[str, float]:
    """Return the milliseconds to the first streamed text, and to the end, above the stub's."""
    first: list[list[float]] = [[], []]
    whole: list[list[float]] = [[], []]
    with server("stub", episodes=1) as stub, server("gateway", episodes=1) as gateway:
        for number in range(rounds + WARM_UP):
            for place, each in enumerate((stub, gateway)):
                seconds = asyncio.run(each.play(10, 1, stream=True))
                if number >= WARM_UP:
                    first[place].append(1e3 * statistics.median(took for took, _ in seconds))
                    whole[place].append(1e3 * statistics.median(took for _, took in seconds))
    return {
        "stub_first_ms": statistics.median(first[0]),
        "gateway_first_ms": statistics.median(first[1]),
        "added_first_ms": above(first[1], first[0]),
        "added_whole_ms": above(whole[1], whole[0]),
    }


def many(calls: int) -> dict[str, float]:
    """Record many calls in one episode; return the memory for each, and the cost of the first and of the last thousand."""
    thousand = 1000 // TURNS
    with server("gateway", episodes=1) as gateway:

        def play(conversations: int) -> tuple[float, float]:
            before = gateway.cpu_s()
            seconds = asyncio.run(gateway.play(conversations, 4))
            return 1e3 * statistics.median(took for _, took in seconds), 1e3 * (gateway.cpu_s() - before) / len(seconds)

        # What is remembered of conversations for a while has a bound of its own; it is reached first.
        play(300)
        held, known = gateway.resident_bytes(), gateway.recorded()
        first = play(thousand)
        play(calls // TURNS - 2 * thousand)
        last = play(thousand)
        found = gateway.recorded()
        grown = gateway.resident_bytes() - held
    fed, sampled, count = (found[name] - known[name] for name in ("fed", "sampled", "calls"))
    # An id takes four bytes, and a sampled one has a logprob of four.
    tokens = 4 * fed + 8 * sampled
    return {
        "calls": count,
        "bytes_per_call": grown / count,
        "token_bytes_per_call": tokens / count,
        "beyond_tokens_per_call": (grown - tokens) / count,
        "first_thousand_cpu_ms": first[1],
        "last_thousand_cpu_ms": last[1],
        "first_thousand_p50_ms": first[0],
        "last_thousand_p50_ms": last[0],
    }


def in_process(rounds: int) -> Mapping[str, float]:
    """Return the CPU milliseconds per call of the OpenAI SDK over our transport, and over one with canned answers."""
    command = [sys.executable, str(HERE / "recorder_in_process.py"), f"--rounds={rounds}"]
    found: Mapping[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def main() -> None:
    """Measure everything, or the parts that are asked for."""
    parts = ("compare", "streaming", "many", "in-process")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar=f"{{{','.join(parts)}}}", help="All of them when none is given.")
    parser.add_argument("--rllm-python", type=Path, help="The interpreter of an environment with rllm-model-gateway 0.1.0.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=10_000, help="Calls of the one large episode.")
    parser.add_argument(
        "--delay-ms", type=float, default=100.0, help="What an answer takes the engine where several are asked for."
    )
    parser.add_argument("--most", type=int, default=256, help="The largest number of conversations at a time.")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(parts):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    wanted = given.parts or parts
    found: dict[str, Any] = {"load": os.getloadavg()}
    if "compare" in wanted:
        if given.rllm_python is None:
            print("rllm-model-gateway is left out: give --rllm-python an environment in which it is installed.")
        same = {"python": given.rllm_python, "rounds": given.rounds}
        rows = compare(conversations={1: 20}, delay_s=0.0, **same)
        rows += compare(conversations={16: 32, given.most: given.most}, delay_s=given.delay_ms / 1e3, **same)
        print_rows(rows)
        found["compare"] = rows
    if "streaming" in wanted:
        found["streaming"] = measure_streaming(given.rounds)
    if "in-process" in wanted:
        found["in-process"] = in_process(given.rounds)
    if "many" in wanted:
        found["many"] = many(given.calls)
    for part in parts[1:]:
        for name, value in found.get(part, {}).items():
            print(f"{part}: {name} {value:.2f}")
    print(json.dumps({**found, "load_after": os.getloadavg()}))


if __name__ == "__main__":
    main()
