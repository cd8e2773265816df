"""Where a workflow runs: on the gateway's event loop, in its own thread, or in its own process.

A blocking workflow on the loop freezes every other episode; a thread keeps the rest going; only a process can be ended.
"""

from __future__ import annotations

import asyncio
import contextvars
import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

from astuner.errors import describe_error
from astuner.handover.outputs import CheckedOutput, check_output
from astuner.protocols import Workflow
from astuner.rollout.episode_failures import find_surroundings_failure
from astuner.schema import WorkflowTask


class WorkflowCrashed(Exception):
    """A workflow in another process raised, or its process ended."""

    def __init__(self, detail: str, surroundings: str | None = None) -> None:
        """`surroundings` is what `find_surroundings_failure` found in the process."""
        super().__init__(detail)
        self.surroundings = surroundings


class Executor(Protocol):
    """Runs a workflow to its end."""

    async def run(self, workflow_task: WorkflowTask, tuner: Any) -> CheckedOutput:
        """Return the output, checked where the workflow ran; cancelling ends the workflow as far as its place allows."""

    def close(self) -> None:
        """End what is kept."""


class OnLoop:
    """On the gateway's event loop: cheapest, and what an async workflow wants."""

    def __init__(self, make: Callable[[], Workflow]) -> None:
        """Make a new workflow for each episode."""
        self._make = make

    async def run(self, workflow_task: WorkflowTask, tuner: Any) -> CheckedOutput:
        """Await the workflow."""
        return await _play(self._make(), workflow_task, tuner)

    def close(self) -> None:
        """Nothing is kept."""


class InThread:
    """In a thread with its own event loop. A thread that hangs after its time limit is abandoned and counted."""

    def __init__(self, make: Callable[[], Workflow], workers: int) -> None:
        """Use at most `workers` threads."""
        self._make = make
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="astuner-workflow")

    async def run(self, workflow_task: WorkflowTask, tuner: Any) -> CheckedOutput:
        """Run the workflow's own loop in a thread and wait for it; cancelling cancels it at its next await."""
        loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

        async def play() -> CheckedOutput:
            task = asyncio.current_task()
            assert task is not None  # a coroutine under asyncio.run is always in a task
            loops.append((asyncio.get_running_loop(), task))
            return await _play(self._make(), workflow_task, tuner)

        # The thread sees the context variables of the episode's task.
        context = contextvars.copy_context()
        future = asyncio.get_running_loop().run_in_executor(self._pool, lambda: context.run(asyncio.run, play()))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            for loop, task in loops:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(task.cancel)
            raise

    def close(self) -> None:
        """Take no more work, and wait for none."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class InProcess:
    """In worker processes, each kept for many episodes; one that outlives its episode's time limit is killed and replaced."""

    def __init__(self, target: str, config_dir: Path, workers: int) -> None:
        """Start at most `workers` processes, when they are needed."""
        self._target, self._config_dir = target, config_dir
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._slots = asyncio.Semaphore(workers)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="astuner-worker-wait")

    async def run(self, workflow_task: WorkflowTask, tuner: Any) -> CheckedOutput:
        """Send the task to a worker and wait for its output; cancelling kills the worker."""
        async with self._slots:
            worker = self._idle.pop() if self._idle else self._start()
            try:
                output = await asyncio.get_running_loop().run_in_executor(
                    self._threads, worker.execute, workflow_task, tuner.remote()
                )
            except WorkflowCrashed:
                if worker.alive:
                    self._idle.append(worker)
                else:
                    self._drop(worker)
                raise
            except BaseException:
                self._drop(worker)
                raise
            self._idle.append(worker)
            return output

    def _start(self) -> _Worker:
        worker = _Worker(self._target, self._config_dir)
        self._all.add(worker)
        return worker

    def _drop(self, worker: _Worker) -> None:
        worker.kill()
        self._all.discard(worker)

    def close(self) -> None:
        """Kill the workers: between episodes they hold nothing."""
        for worker in self._all:
            worker.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, target: str, config_dir: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(
            target=_serve, args=(theirs, target, config_dir, list(sys.path)), daemon=True
        )
        self._process.start()
        theirs.close()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def execute(self, workflow_task: WorkflowTask, tuner: Any) -> CheckedOutput:
        """Block until the worker answers."""
        try:
            self._pipe.send((workflow_task, tuner))
            output, *failure = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._process.join(5)  # the pipe closes a moment before the exit code is there
            raise WorkflowCrashed(f"the workflow's process ended with exit code {self._process.exitcode}") from error
        if failure:
            raise WorkflowCrashed(*failure)
        assert isinstance(output, CheckedOutput)  # _serve sends nothing else without a failure
        return output

    def kill(self) -> None:
        self._process.kill()
        self._process.join(5)
        self._pipe.close()


async def _play(workflow: Workflow, workflow_task: WorkflowTask, tuner: Any) -> CheckedOutput:
    # Checked in the coroutine: a loop that ends may show the result of its last task, which raises if the values in it do.
    return check_output(await workflow.execute(workflow_task, tuner))


def _serve(pipe: Connection, target: str, config_dir: Path, path: list[str]) -> None:
    """Play one workflow after the other until the pipe closes."""
    sys.path[:] = path
    from astuner.rollout.workflows import load_workflow

    loaded = load_workflow(target, config_dir)
    while True:
        try:
            workflow_task, tuner = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((asyncio.run(_play(loaded.make(), workflow_task, tuner)),))
        except Exception as error:  # noqa: BLE001 - the boundary for workflows: it crosses the pipe as text
            pipe.send((None, describe_error(error), find_surroundings_failure(error)))
