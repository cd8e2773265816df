"""Environments that do what they should not, on demand. Copied beside a server by the tests."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time


def make_message(content):
    return {"role": "user", "content": str(content).strip()}


def start():
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid


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
            case "half":
                return [make_message("a \ud83d b \ud83d\ude00")], 0.0, False, {"\udfff": "\ud800"}
            case "raise half":
                raise ValueError("the world broke at \ud83d")
            case "raise":
                raise ValueError("the world broke")
            case "sleep":
                print("going to sleep", flush=True)
                time.sleep(60)
            case "spin":
                while True:
                    pass
            case "eat":
                self.food = bytearray(8 << 30)
            case "exit":
                os._exit(3)
            case "start":
                return [make_message(start())], 0.0, False, {}
            case "start away":
                # Neither in the group of this process, nor its child for long.
                shell = f"{sys.executable} -c 'import time; time.sleep(600)' >/dev/null 2>&1 & echo $!"
                return [make_message(subprocess.check_output(["setsid", "sh", "-c", shell], text=True))], 0.0, False, {}
            case "start and sleep":
                print("started", start(), flush=True)
                time.sleep(60)
            case "start and exit":
                print("started", start(), flush=True)
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


class Crowded(Odd):
    """Played where the system has no process left for as long as there is a file `crowded`."""

    @classmethod
    def warm_up(cls):
        fork = os.fork

        def crowded():
            if os.path.exists("crowded"):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            return fork()

        os.fork = crowded


class Helped(Odd):
    """Shares a process between its instances."""

    @classmethod
    def warm_up(cls):
        cls.helper = start()

    async def step(self, action):
        return [make_message(self.helper)], 0.0, False, {}
