"""Environments that do what they should not, on demand. Copied beside a server by the tests."""

from __future__ import annotations

import os
import time


class Odd:
    """Does what it is told."""

    def __init__(self, workflow_task):
        self.task = workflow_task.task

    async def reset(self):
        if self.task.main_query == "broken":
            raise RuntimeError("it cannot begin")
        if self.task.main_query == "slow":
            time.sleep(60)
        return [{"role": "user", "content": self.task.main_query}]

    async def step(self, action):
        match action["content"]:
            case "raise":
                raise ValueError("the world broke")
            case "sleep":
                time.sleep(60)
            case "spin":
                while True:
                    pass
            case "eat":
                self.food = bytearray(8 << 30)
            case "exit":
                os._exit(3)
            case "print":
                print("hello from the world")
            case "nan":
                return [], float("nan"), False, {}
            case "odd info":
                return [], 0.0, False, {"number": float("inf")}
        return [{"role": "user", "content": str(os.getpid())}], 0.0, False, {"said": action["content"]}

    async def evaluate(self):
        return 0.5

    async def close(self):
        print("closed", self.task.task_id, flush=True)
