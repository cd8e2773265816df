"""Workflows for the tests of isolation; imported by name in worker processes."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import resource
import signal
import threading
import time

import openai

from astuner import ServiceUnavailable, Workflow, WorkflowOutput


class Says(Workflow):
    async def execute(self, workflow_task, tuner):
        return WorkflowOutput(
            metadata={"pid": os.getpid(), "thread": threading.get_ident(), "query": workflow_task.task.main_query}
        )


class Counts(Workflow):
    async def execute(self, workflow_task, tuner):
        return WorkflowOutput(metadata={"searched": len(gc.get_objects()), "kept": gc.get_freeze_count()})


class Unpicklable(Workflow):
    """Returns what no pipe takes, and what raises when it is shown."""

    class Thing:
        def __repr__(self):
            raise RuntimeError("no text")

    async def execute(self, workflow_task, tuner):
        return WorkflowOutput(metadata={"thing": self.Thing(), "function": lambda: None}, log_metrics={"thing": self.Thing()})


class Blocks(Workflow):
    async def execute(self, workflow_task, tuner):
        time.sleep(0.4)
        return WorkflowOutput()


class Imports(Workflow):
    async def execute(self, workflow_task, tuner):
        import slow_to_import  # noqa: F401

        return WorkflowOutput()


class Hangs(Workflow):
    async def execute(self, workflow_task, tuner):
        await asyncio.sleep(600)
        return WorkflowOutput()


class HoldsTheInterpreter(Workflow):
    async def execute(self, workflow_task, tuner):
        re.match("(a+)+$", "a" * 64 + "b")


class Raises(Workflow):
    async def execute(self, workflow_task, tuner):
        raise KeyError("answer")


class Dies(Workflow):
    async def execute(self, workflow_task, tuner):
        os._exit(3)


class AsksForEver(Workflow):
    """Goes on whatever the gateway answers."""

    async def execute(self, workflow_task, tuner):
        client = tuner.as_raw_openai_sdk_client()
        tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "required": ["a"]}}}]
        while True:
            try:
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "2 + 2?"}], tools=tools)
            except openai.APIStatusError:
                await asyncio.sleep(0.01)


class LosesItsService(Workflow):
    async def execute(self, workflow_task, tuner):
        raise RuntimeError("no search") from ServiceUnavailable("the index is down")


class Sync(Workflow):
    """Written for a library that blocks."""

    def execute(self, workflow_task, tuner):
        return WorkflowOutput(metadata={"pid": os.getpid(), "thread": threading.get_ident()})


class SyncThatRunsALoop(Workflow):
    def execute(self, workflow_task, tuner):
        return asyncio.run(Says().execute(workflow_task, tuner))


class SyncThatReturnsAnAwaitable(Workflow):
    def execute(self, workflow_task, tuner):
        return Says().execute(workflow_task, tuner)


class SyncThatRaises(Workflow):
    def execute(self, workflow_task, tuner):
        return WorkflowOutput(reward=int(workflow_task.task.main_query))


class SyncThatExits(Workflow):
    def execute(self, workflow_task, tuner):
        raise SystemExit(4)


class SyncThatAsks(Workflow):
    """Asks the model through the SDK's synchronous client."""

    def execute(self, workflow_task, tuner):
        api = tuner.as_oai_baseurl_apikey()
        with openai.OpenAI(base_url=api.base_url, api_key=api.api_key, max_retries=0) as client:
            said = client.chat.completions.create(model=api.model, messages=[{"role": "user", "content": "2 + 2?"}])
        return WorkflowOutput(reward=float(said.choices[0].message.content))


class SyncThatHangs(Workflow):
    released = threading.Event()

    def execute(self, workflow_task, tuner):
        self.released.wait(300)
        return WorkflowOutput(reward=1.0)


def sync_function(task, model):
    return WorkflowOutput(reward=len(task["main_query"]))


class Killed(Workflow):
    """Ends as the system ends a process when memory runs out."""

    async def execute(self, workflow_task, tuner):
        os.kill(os.getpid(), signal.SIGKILL)


class Starves(Workflow):
    """Asks for more memory than its process may have."""

    async def execute(self, workflow_task, tuner):
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, limits[1]))
        try:
            return WorkflowOutput(metadata={"size": len(bytes(1 << 31))})
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
