"""Where a workflow runs: on the gateway's event loop, in its own thread, or in its own process.

A blocking workflow on the loop freezes every other episode; a thread keeps the rest going; only a process can be ended.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import multiprocessing
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

from astuner.contract.errors import AstunerError
from astuner.contract.protocols import RunInfo, Workflow
from astuner.contract.schema import WorkflowTask
from astuner.contract.user_values.outputs import CheckedOutput, check_output
from astuner.episodes.containment.contained_call import Outcome
from astuner.episodes.containment.endings import describe_raised
from astuner.episodes.containment.process_streams import open_missing_descriptors
from astuner.episodes.containment.surroundings import find_surroundings_failure
from astuner.episodes.containment.threads import start_thread
from astuner.episodes.containment.tracebacks import NOWHERE, RaisedAt, locate_error
from astuner.episodes.containment.user_code import UserCode, find_running_code

START_TIMEOUT_S = 120.0
"""For a worker process to import the workflow."""

IMPORTING_EPISODES = 2
"""Before this many episodes, a worker takes what is there for what stays: the first one imports what only episodes need."""


class WorkflowCrashed(Exception):
    """A workflow in another process raised, or its process ended."""

    def __init__(self, detail: str, surroundings: str | None = None, raised: RaisedAt = NOWHERE) -> None:
        """`surroundings` is what `find_surroundings_failure` found in the process."""
        super().__init__(detail)
        self.surroundings, self.raised = surroundings, raised


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
        return await _play(self._make, workflow_task, tuner)

    def close(self) -> None:
        """Nothing is kept."""


class InThread:
    """Each in its own thread with its own event loop. A thread that hangs after its time limit is left behind, and named."""

    def __init__(self, make: Callable[[], Workflow], *, blocking: bool = False) -> None:
        """Make a new workflow for each episode; `blocking` ones have a plain `execute`, which is called where no loop runs."""
        self._make, self._blocking = make, blocking

    async def run(self, workflow_task: WorkflowTask, tuner: Any) -> CheckedOutput:
        """Run the workflow in a thread and wait for it; cancelling cancels it at its next await, a plain function at none."""
        from astuner.episodes.containment.blocking_call import run_blocking
        from astuner.episodes.containment.separate_loop import run_in_separate_loop

        here = asyncio.get_running_loop()
        played: asyncio.Future[Outcome[CheckedOutput]] = here.create_future()
        started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
        code = find_running_code() or UserCode("the workflow")

        def settle(outcome: Outcome[CheckedOutput]) -> None:
            if not played.done():
                played.set_result(outcome)

        def deliver(outcome: Outcome[CheckedOutput]) -> None:
            code.thread = None
            with suppress(RuntimeError):  # the run's loop has been closed: nothing waits for the outcome
                here.call_soon_threadsafe(settle, outcome)

        def work() -> None:
            code.thread = threading.get_ident()
            game = self._make, workflow_task, tuner
            if self._blocking:
                run_blocking(partial(_begin, *game), code, deliver, lambda *pair: started.append(pair))
            else:
                run_in_separate_loop(partial(_play, *game), code, deliver, lambda *pair: started.append(pair))

        # A thread of its own, not one of a pool: threads that hang would fill the pool, and what waits for one is not yet played.
        # The thread sees the context variables of the episode's task.
        context = contextvars.copy_context()
        await start_thread(partial(context.run, work), "astuner-workflow")
        while True:
            try:
                return (await asyncio.shield(played)).unwrap()
            except (asyncio.CancelledError, GeneratorExit) as ending:
                for loop, task in started:
                    with suppress(RuntimeError):
                        loop.call_soon_threadsafe(task.cancel)
                # The caller gives up if the thread does not end in time, and then this coroutine is closed.
                if isinstance(ending, GeneratorExit) or played.done():
                    raise

    def close(self) -> None:
        """Nothing is kept."""


class InProcess:
    """In worker processes, each kept for many episodes; one that outlives its episode's time limit is killed and replaced."""

    def __init__(self, target: str, config_dir: Path, workers: int, run_info: RunInfo | None = None) -> None:
        """Start at most `workers` processes, when they are needed."""
        self._loading = target, config_dir, run_info
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._slots = asyncio.Semaphore(workers)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="astuner-worker-wait")

    async def run(self, workflow_task: WorkflowTask, tuner: Any) -> CheckedOutput:
        """Send the task to a worker and wait for its output; cancelling kills the worker."""
        async with self._slots:
            worker = self._idle.pop() if self._idle else self._start()
            waiting = asyncio.get_running_loop().run_in_executor(self._threads, worker.execute, workflow_task, tuner.remote())
            try:
                output = await asyncio.shield(waiting)
            except WorkflowCrashed:
                if worker.answers:
                    self._idle.append(worker)
                else:
                    self._drop(worker)
                raise
            except BaseException:
                worker.kill()
                self._all.discard(worker)
                # No thread may be reading from its pipe.
                waiting.add_done_callback(lambda done: worker.hang_up() if done.cancelled() or done.exception() else None)
                raise
            self._idle.append(worker)
            return output

    def _start(self) -> _Worker:
        worker = _Worker(*self._loading)
        self._all.add(worker)
        return worker

    def _drop(self, worker: _Worker) -> None:
        worker.kill()
        worker.hang_up()
        self._all.discard(worker)

    def close(self) -> None:
        """Kill the workers: between episodes they hold nothing."""
        for worker in self._all:
            worker.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, target: str, config_dir: Path, run_info: RunInfo | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._target = target
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(
            target=_serve, args=(theirs, target, config_dir, run_info, list(sys.path)), daemon=True
        )
        self._process.start()
        theirs.close()
        self._is_ready = False
        self.answers = True
        """Whether it can be asked again."""

    def execute(self, workflow_task: WorkflowTask, tuner: Any) -> CheckedOutput:
        """Block until the worker answers."""
        try:
            if not self._is_ready:
                self._await_ready()
            self._pipe.send((workflow_task, tuner))
            output, *failure = self._pipe.recv()
        except (EOFError, OSError) as error:
            self.answers = False
            self._process.join(5)  # the pipe closes a moment before the exit code is there
            raise WorkflowCrashed(f"the workflow's process {_describe_end(self._process.exitcode)}") from error
        if failure:
            raise WorkflowCrashed(*failure)
        assert isinstance(output, CheckedOutput)  # _serve sends nothing else without a failure
        return output

    def kill(self) -> None:
        self._process.kill()
        self._process.join(5)

    def hang_up(self) -> None:
        """Close the pipe, which no thread may be reading."""
        self._pipe.close()

    def _await_ready(self) -> None:
        if not self._pipe.poll(START_TIMEOUT_S):
            self.answers = False
            self.kill()
            raise WorkflowCrashed(
                f"the workflow's process was not ready after {START_TIMEOUT_S:g} s and was killed: importing "
                f"{self._target} hangs, or takes too long"
            )
        failure = self._pipe.recv()
        if failure is not None:
            self.answers = False
            raise WorkflowCrashed(f"{self._target} cannot be imported in a worker process: {failure}")
        self._is_ready = True


def _describe_end(status: int | None) -> str:
    if status is None:
        return "closed its connection to the run"
    if status < 0:
        return f"was ended by the signal {_name_signal(-status)}"
    return f"ended with exit code {status}"


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


async def _play(make: Callable[[], Workflow], workflow_task: WorkflowTask, tuner: Any) -> CheckedOutput:
    # Checked in the coroutine: a loop that ends may show the result of its last task, which raises if the values in it do.
    return check_output(await make().execute(workflow_task, tuner))


def _begin(make: Callable[[], Workflow], workflow_task: WorkflowTask, tuner: Any) -> CheckedOutput | Awaitable[CheckedOutput]:
    """Call a plain `execute`, which may return an awaitable."""
    found: Any = make().execute(workflow_task, tuner)
    return _check_later(found) if inspect.isawaitable(found) else check_output(found)


async def _check_later(found: Awaitable[Any]) -> CheckedOutput:
    return check_output(await found)


def _serve(pipe: Connection, target: str, config_dir: Path, run_info: RunInfo | None, path: list[str]) -> None:
    """Play one workflow after the other until the pipe closes."""
    from astuner.episodes.containment.blocking_call import run_blocking
    from astuner.episodes.containment.separate_loop import run_in_separate_loop

    sys.path[:] = path
    # The terminal's Ctrl-C reaches this process too; the run decides what ends.
    signal.signal(signal.SIGINT, lambda *_: None)
    from astuner.episodes.rollout.workflows import load_workflow

    try:
        loaded = load_workflow(target, config_dir, run_info)
    except BaseException as error:  # noqa: BLE001 - the boundary for users' modules: it crosses the pipe as text
        pipe.send(str(error) if isinstance(error, AstunerError) else describe_raised(error))
        return
    pipe.send(None)
    for number in count(1):
        if number <= IMPORTING_EPISODES:
            # What was imported stays; to search it for garbage after each episode costs more than playing one.
            gc.collect()
            gc.freeze()
        try:
            workflow_task, tuner = pipe.recv()
        except EOFError:
            return
        open_missing_descriptors()
        code = UserCode("the workflow")
        if loaded.blocks:
            run_blocking(partial(_begin, loaded.make, workflow_task, tuner), code, lambda outcome: pipe.send(_pack(outcome)))
            continue
        play = partial(_play_and_clean, loaded.make, workflow_task, tuner)
        run_in_separate_loop(play, code, lambda outcome: pipe.send(_pack(outcome)))


async def _play_and_clean(make: Callable[[], Workflow], workflow_task: WorkflowTask, tuner: Any) -> CheckedOutput:
    """Play, and let clients of SDKs, which are parts of cycles, close their connections while their loop is there."""
    try:
        return await _play(make, workflow_task, tuner)
    finally:
        gc.collect()
        await asyncio.sleep(0)


def _pack(outcome: Outcome[CheckedOutput]) -> tuple[Any, ...]:
    """Return what crosses the pipe: the output, or nothing and what the failure is."""
    if outcome.error is not None:
        error = outcome.error
        return None, describe_raised(error), find_surroundings_failure(error), locate_error(error)
    return (outcome.value,)
