"""A day of the deployed agent: start its model and the collector, let users ask and give feedback, stop everything."""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
from agent import answer
from spans import Recording

from astuner.shared.processes import free_port

HERE = Path(__file__).parent
PHRASINGS = ("What is {a} * {b}?", "How much is {a} * {b}?", "Can you work out {a} * {b}?")
NUMBERS = range(32, 100)


def main() -> None:
    """Run a day, and print how many answers were liked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="A model directory.")
    parser.add_argument("--traces", default="traces.jsonl", help="The collector's file; a later day is appended.")
    parser.add_argument("--questions", type=int, default=96)
    parser.add_argument("--day", type=int, default=1, help="Each day has other questions.")
    arguments = parser.parse_args()
    model_port, collector_port = free_port(), free_port()
    collect = [sys.executable, "-m", "astuner", "trace", "collect", f"--port={collector_port}", f"--out={arguments.traces}"]
    serve = [sys.executable, str(HERE / "model_server.py"), arguments.model, f"--port={model_port}"]
    collector, model = f"http://127.0.0.1:{collector_port}", f"http://127.0.0.1:{model_port}/v1"
    with run_server(collect, f"{collector}/health"), run_server(serve, f"{model}/models"):
        liked = asyncio.run(ask_all(model, collector, questions(arguments.day, arguments.questions)))
    print(f"day {arguments.day}: {liked} of {arguments.questions} answers were liked")


def questions(day: int, count: int) -> list[tuple[str, int]]:
    """Return questions with their right answers, which only the users know."""
    draw = random.Random(day)
    pairs = [(draw.choice(NUMBERS), draw.choice(NUMBERS)) for _ in range(count)]
    return [(draw.choice(PHRASINGS).format(a=a, b=b), a * b) for a, b in pairs]


async def ask_all(model: str, collector: str, asked: list[tuple[str, int]]) -> int:
    """Let a user ask each question, report the agent's spans, and report the user's thumb; return how many went up."""
    from openai import AsyncOpenAI

    liked = 0
    async with AsyncOpenAI(base_url=model, api_key="none") as client, httpx.AsyncClient(base_url=collector) as reports:
        for number, (question, right) in enumerate(asked):
            recording = Recording(conversation=uuid4().hex)
            text = await answer(client, "tiny", question, recording)
            (await reports.post("/v1/traces", json=recording.request())).raise_for_status()
            is_right = re.findall(r"\d+", text)[-1:] == [str(right)]
            liked += is_right
            # A dissatisfied user sends the right answer.
            opinion = {"trace_id": recording.trace_id, "thumbs": "up" if is_right else "down", "user": f"user-{number}"}
            correction = {} if is_right else {"correction": f"\\boxed{{{right}}}"}
            (await reports.post("/v1/feedback", json={**opinion, **correction})).raise_for_status()
    return liked


@contextmanager
def run_server(command: list[str], ready: str) -> Iterator[None]:
    """Run a server for the length of the block, which begins when the server answers."""
    with subprocess.Popen(command) as process:
        try:
            deadline = time.monotonic() + 120
            while not _answers(ready):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{command[:4]} did not start")
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait()


def _answers(address: str) -> bool:
    try:
        return httpx.get(address, trust_env=False, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


if __name__ == "__main__":
    main()
