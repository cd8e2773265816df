"""What one huge body does to the others: the gateway's memory, and how long the calls of another episode take meanwhile."""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import statistics
import threading
import time
from collections.abc import Mapping

from recorder import Server, server

KINDS = ("text", "with an emoji", "other script", "many messages", "raw prompt", "ids")
ALONE_S = 3.0
"""How long the other episode's calls are watched before the huge one."""


def make_body(kind: str, size: int) -> tuple[str, bytes]:
    """Return the path and the body of a request of about this many bytes."""
    text = "word " * (size // 5)
    chat = "/v1/chat/completions"
    if kind == "raw prompt":
        return "/v1/completions", json.dumps({"prompt": text}).encode()
    if kind == "ids":
        return "/v1/completions", json.dumps({"prompt": [300] * (size // 5)}).encode()
    if kind == "many messages":
        return chat, json.dumps({"messages": [{"role": "user", "content": "x"}] * min(200_000, size // 33)}).encode()
    others: Mapping[str, str] = {"with an emoji": f"🙂{text}", "other script": "中" * (size // 3)}
    content = others.get(kind, text)
    return chat, json.dumps({"messages": [{"role": "user", "content": content}]}, ensure_ascii=False).encode()


def send(gateway: Server, key: str, path: str, body: bytes) -> tuple[int, str]:
    """Send a request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=600)
    connection.request("POST", path, body, {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def measure(kind: str, size: int, max_model_len: int) -> Mapping[str, object]:
    """Send one huge message; meanwhile watch the memory, and hold conversations in another episode."""
    path, body = make_body(kind, size)
    with server("gateway", episodes=2, max_model_len=max_model_len) as gateway:
        asyncio.run(gateway.play(10, 1))
        peak, over = 0, threading.Event()
        alone: list[float] = []
        meanwhile: list[float] = []
        took = alone

        def watch() -> None:
            nonlocal peak
            while not over.is_set():
                peak = max(peak, gateway.resident_bytes())
                time.sleep(0.002)

        def ask() -> None:
            short = json.dumps({"messages": [{"role": "user", "content": "hello"}]}).encode()
            while not over.is_set():
                started = time.perf_counter()
                assert send(gateway, gateway.keys[1], "/v1/chat/completions", short)[0] == 200
                took.append(1e3 * (time.perf_counter() - started))

        threads = [threading.Thread(target=watch), threading.Thread(target=ask)]
        for thread in threads:
            thread.start()
        time.sleep(ALONE_S)
        # What the calls so far have left in the records does not count.
        before = peak = gateway.resident_bytes()
        took, started = meanwhile, time.perf_counter()
        status, text = send(gateway, gateway.keys[0], path, body)
        seconds = time.perf_counter() - started
        over.set()
        for thread in threads:
            thread.join()
    return {
        "kind": kind,
        "megabytes": round(len(body) / 1e6, 1),
        "status": status,
        "message": text[:130] if status != 200 else "",
        "seconds": round(seconds, 2),
        "memory_by_message": round((peak - before) / len(body), 2),
        "others": describe(meanwhile),
        "others_alone": describe(alone),
    }


def describe(took: list[float]) -> Mapping[str, float]:
    """Return how many calls there were, and their times in ms."""
    return {"calls": len(took), "median_ms": round(statistics.median(took), 1), "slowest_ms": round(max(took), 1)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, nargs="*", default=[31, 2], help="One that is not read, and one that is.")
    parser.add_argument("--max-model-len", type=int, default=32768)
    parser.add_argument("--kinds", nargs="*", default=KINDS)
    given = parser.parse_args()
    for megabytes in given.megabytes:
        for each in given.kinds:
            print(json.dumps(measure(each, int(megabytes * 1e6), given.max_model_len)), flush=True)
