"""Agents that leave things behind, and do not end, for whole runs: `UNRULY` names what each first repeat does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


def leave_processes() -> None:
    subprocess.Popen(["sleep", "1597"])
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "1598"])
        os._exit(0)


def leave_threads() -> None:
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(600,)).start()


def block_for_ever() -> None:
    while True:
        try:
            time.sleep(600)
        except BaseException:  # noqa: BLE001 - the point
            continue


async def swallow() -> None:
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue


class Agent(Workflow):
    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        client = tuner.as_raw_openai_sdk_client()
        await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "2 + 2?"}])
        if workflow_task.repeat == 0:
            match os.environ["UNRULY"]:
                case "leaves processes":
                    leave_processes()
                case "leaves threads":
                    leave_threads()
                case "leaves a call in a thread":
                    self.call = asyncio.create_task(asyncio.to_thread(time.sleep, 600))
                case "exits":
                    os._exit(0)
                case "cancels all":
                    for task in asyncio.all_tasks():
                        task.cancel()
                case "swallows":
                    await swallow()
                case "blocks":
                    time.sleep(600)
                case "blocks for ever":
                    block_for_ever()
                case "crashes":
                    os.abort()
        return WorkflowOutput(reward=float(workflow_task.repeat % 2))
