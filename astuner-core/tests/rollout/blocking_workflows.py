"""Workflows for the tests of isolation; imported by name in worker processes."""

from __future__ import annotations

import asyncio
import gc
import os
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
