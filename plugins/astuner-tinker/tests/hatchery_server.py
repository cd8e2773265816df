"""A server of hatchery-core with its real worker, on the CPU, in a process of its own; it tells what it holds and has done.

hatchery's own launcher answers from a script where there is no CUDA. With `--stock-store` states are saved as by that launcher:
a model's first is what each later one holds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from attrs import Factory, define, frozen

KEY = "tml-dev"
STARTS_S = 120.0
"""How long it may take to load the model."""
IDLE_S = 0.003
MODELS = 1_000
"""That live at the same time: those of a run that was killed are not given back."""


@frozen
class HatcheryServer:
    """A server that answers."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    @property
    def cpu_s(self) -> float:
        """Seconds of processors so far."""
        return float(self.ask("cpu"))

    def read_jobs(self) -> list[dict[str, Any]]:
        """Return the jobs that were asked for: `operation`, `model`, of samples `seed` and `prompt`, and whether they `ended`."""
        found: list[dict[str, Any]] = self.ask("jobs")
        return found

    def read_model(self, model: str) -> dict[str, Any]:
        """Return a model's `rank` and `alpha`, and by names in PEFT's files `weights`, `exp_avg` and `exp_avg_sq`, as tensors."""
        import torch

        found = self.ask(f"models/{model}")
        moments = ("weights", "exp_avg", "exp_avg_sq")
        return {**found, **{kind: {name: torch.tensor(one) for name, one in found[kind].items()} for kind in moments}}

    def hold(self, operation: str, number: int, when: str) -> None:
        """Stop working, once, `before` or `after` the number-th job of an operation from now on, until `release`."""
        self.ask("hold", {"operation": operation, "left": number, "when": when})

    def is_held(self) -> bool:
        """Whether it has come there."""
        return bool(self.ask("held"))

    def release(self) -> None:
        """Work again, and forget what was to be held."""
        self.ask("release", {})

    def ask(self, place: str, given: object = None) -> Any:
        """Return the answer of a route that only tests have."""
        body = None if given is None else json.dumps(given).encode()
        request = Request(f"{self.url}/tests/{place}", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=60) as answer:
            return json.load(answer)


@contextmanager
def serve(model: Path, folder: Path, *arguments: str) -> Iterator[HatcheryServer]:
    """Start a server for a model folder on a free port, wait until it answers, and end it; it writes into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "server.log"
    surroundings = {"HF_HUB_OFFLINE": "1", "HATCHERY_WORKER_LOCAL_DIR": str(folder / "worker"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(model), str(folder), *arguments]
    with log.open("wb") as said:
        # Its input ends when this process does, however that comes about: then it ends too.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=said, stderr=said, env={**os.environ, **surroundings}, start_new_session=True
        )
    try:
        yield _wait(process, folder / "port", log)
    finally:
        process.kill()
        process.wait()
        if process.stdin:
            process.stdin.close()


def _wait(process: subprocess.Popen[bytes], port: Path, log: Path) -> HatcheryServer:
    until = time.monotonic() + STARTS_S
    while process.poll() is None and time.monotonic() < until:
        if port.is_file():
            server = HatcheryServer(process, f"http://127.0.0.1:{port.read_text()}", log)
            server.ask("held")
            return server
        time.sleep(0.05)
    raise AssertionError(f"no server: {log.read_text(encoding='utf-8', errors='replace')[-3000:]}")


@define
class Bench:
    """The worker and its jobs, one after the other; a job that fails ends no other."""

    worker: Any
    queue: Any
    put: Any
    """The queue's own way to take a job."""
    model: str
    jobs: dict[str, dict[str, Any]] = Factory(dict)
    held: dict[str, Any] = Factory(dict)
    """What to stop at: the operation, how many of its jobs are left, and on which side of the last."""
    stopped: bool = False
    open: asyncio.Event = Factory(asyncio.Event)

    async def work(self) -> None:
        """Do jobs for ever."""
        while True:
            job = await self.queue.dequeue(worker_id=self.worker.worker_id, model_filter=self.model, visibility_timeout=3600)
            if job is None:
                await asyncio.sleep(IDLE_S)
                continue
            last = self._count(job.operation)
            await self._stop_if(last, "before")
            try:
                await self.worker._process_one(job)
            except Exception as error:  # noqa: BLE001 - whatever it is, others wait
                print(f"{job.operation} failed: {error!r}", flush=True)
                await self.queue.nack(job.job_id, repr(error))
            self.jobs[job.job_id]["ended"] = True
            await self._stop_if(last, "after")

    async def enqueue(self, job: Any, *more: Any, **options: Any) -> Any:
        """Note a job, and put it in the queue."""
        noted = {"operation": job.operation, "model": job.session_id, "ended": False}
        if job.operation == "sample":
            payload = await self.worker._read_payload(job.payload)
            noted |= {"seed": payload["seed"], "prompt": list(payload["prompt_tokens"])}
        self.jobs[job.job_id] = noted
        return await self.put(job, *more, **options)

    def read_model(self, model: str) -> dict[str, Any]:
        """Return the numbers of the adapters of a model, and of their optimizer."""
        from peft import get_peft_model_state_dict

        runtime = self.worker._cache.get(model)
        own = self.worker._adapter_name(model)
        weights = get_peft_model_state_dict(self.worker._peft, adapter_name=own)
        trained = [name.replace(f".{own}.", ".") for name, _ in self.worker._peft.named_parameters() if f".{own}." in name]
        state = (runtime.optimizer_state or {"state": {}})["state"]
        moments = {
            kind: {trained[place]: one[kind].tolist() for place, one in state.items()} for kind in ("exp_avg", "exp_avg_sq")
        }
        config = runtime.lora_config
        return {
            "rank": config.r,
            "alpha": config.lora_alpha,
            "modules": sorted(config.target_modules),
            "weights": {name: one.tolist() for name, one in weights.items()},
            **moments,
        }

    def release(self) -> None:
        """Go on."""
        self.held, self.stopped = {}, False
        self.open.set()

    def _count(self, operation: str) -> bool:
        if self.held.get("operation") != operation:
            return False
        self.held["left"] -= 1
        return bool(self.held["left"] == 0)

    async def _stop_if(self, last: bool, when: str) -> None:
        if last and self.held.get("when") == when:
            self.open.clear()
            self.stopped = True
            await self.open.wait()


def _make_config(*, stock_store: bool) -> Any:
    from hatchery.core.backends.auth.api_key import APIKeyAuthProvider
    from hatchery.core.backends.compute.local import LocalComputeBackend
    from hatchery.core.backends.metadata.memory import InMemoryMetadataStore
    from hatchery.core.backends.metrics.log import LogMetrics
    from hatchery.core.backends.object_store.memory import InMemoryObjectStore
    from hatchery.core.backends.queue.memory import InMemoryJobQueue
    from hatchery.core.config import Config
    from hatchery.core.session_store import LocalSessionStateStore

    class OneStore(Config):
        """Keeps what models are in the store that states are copied from."""

        def build_session_store(self, *, local: Any, worker: Any = None) -> Any:
            return LocalSessionStateStore(local=local if stock_store else self.objects, remote=self.objects)

    auth = APIKeyAuthProvider()
    auth.add_key(KEY, user_id="tests", tier="enterprise", max_concurrent_sessions=MODELS, max_rank=256)
    return OneStore(
        auth=auth,
        metadata=InMemoryMetadataStore(),
        objects=InMemoryObjectStore(),
        queue=InMemoryJobQueue(),
        compute=LocalComputeBackend(),
        metrics=LogMetrics(),
    )


def _add_routes(app: Any, bench: Bench) -> None:
    async def hold(given: dict[str, Any]) -> None:
        bench.held = given

    async def release(given: dict[str, Any]) -> None:
        bench.release()

    async def read_model(model: str) -> dict[str, Any]:
        return bench.read_model(model)

    async def read_jobs() -> list[dict[str, Any]]:
        return list(bench.jobs.values())

    async def is_held() -> bool:
        return bench.stopped

    async def read_cpu() -> float:
        return time.process_time()

    # The annotations of functions in functions are texts that a framework cannot resolve.
    hold.__annotations__ = release.__annotations__ = {"given": dict, "return": None}
    read_model.__annotations__ = {"model": str}
    for function in (read_jobs, is_held, read_cpu):
        function.__annotations__ = {}
    app.post("/tests/hold")(hold)
    app.post("/tests/release")(release)
    app.get("/tests/models/{model}")(read_model)
    app.get("/tests/jobs")(read_jobs)
    app.get("/tests/held")(is_held)
    app.get("/tests/cpu")(read_cpu)


async def _serve(model: str, folder: Path, *, stock_store: bool) -> None:
    import torch
    import uvicorn
    from hatchery.core.gateway import create_app, set_config
    from hatchery.core.worker import GPUWorker

    torch.set_num_threads(1)
    config = _make_config(stock_store=stock_store)
    set_config(config)
    await config.metadata.initialize()
    await config.queue.initialize()
    app = create_app(config=config)
    worker = GPUWorker("tests", model, config, device="cpu", dtype=torch.float32, max_lora_slots=MODELS)
    await worker.register()
    bench = Bench(worker, config.queue, config.queue.enqueue, model)
    config.queue.enqueue = bench.enqueue
    _add_routes(app, bench)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))

    async def end_with_input() -> None:
        await asyncio.to_thread(sys.stdin.buffer.read)
        server.should_exit = True

    tasks = [asyncio.create_task(bench.work()), asyncio.create_task(end_with_input())]
    written = folder / "port.part"
    written.write_text(str(listening.getsockname()[1]))
    written.rename(folder / "port")
    await server.serve([listening])
    for task in tasks:
        task.cancel()


def main() -> None:
    """Serve until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stock-store", action="store_true")
    given = parser.parse_args()
    asyncio.run(_serve(given.model, given.folder, stock_store=given.stock_store))


if __name__ == "__main__":
    main()
