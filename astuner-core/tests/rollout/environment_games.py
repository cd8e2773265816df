"""Small environments for the tests of the loop; loaded by their path. `log` says what was called, in order."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import date
from typing import ClassVar

import numpy as np
from attrs import frozen

from astuner.contract.protocols import EnvironmentTraits


class Guess:
    """Find a number: each guess is answered by higher, lower or right, in two messages."""

    log: ClassVar[list[str]] = []
    threads: ClassVar[set[int]] = set()

    def __init__(self, workflow_task):
        self.secret = int(workflow_task.task.metadata.get("secret", 7))
        self.guesses = 0
        self.solved = False

    async def reset(self):
        self.note("reset")
        return [{"role": "system", "content": "You guess."}, {"role": "user", "content": "Guess a number from 1 to 9."}]

    async def step(self, action):
        self.note(f"step {action['content']}")
        self.guesses += 1
        try:
            guess = int(action["content"])
        except ValueError:
            return [{"role": "user", "content": "A number, please."}], -0.5, False, {"odd": True}
        self.solved = guess == self.secret
        if self.solved:
            return [{"role": "user", "content": "right"}], 1.0, True, {"guess": guess, "is_success": True}
        hint = "higher" if guess < self.secret else "lower"
        messages = [{"role": "user", "content": hint}, {"role": "user", "content": f"{self.guesses} guesses so far"}]
        return messages, -0.25, False, {"guess": guess, "is_success": False}

    async def evaluate(self):
        self.note("evaluate")
        return float(self.solved)

    async def close(self):
        self.note("close")

    def note(self, text):
        self.log.append(text)
        self.threads.add(threading.get_ident())


class WithOptions(Guess):
    @frozen(kw_only=True)
    class Options:
        highest: int = 9
        """Highest number."""

    def __init__(self, workflow_task, options):
        super().__init__(workflow_task)
        self.options = options

    async def reset(self):
        self.note("reset")
        return [{"role": "user", "content": f"Guess a number from 1 to {self.options.highest}."}]


class KnowsTheRun(Guess):
    @classmethod
    def from_run(cls, workflow_task, options, run_info):
        made = cls(workflow_task)
        made.name = run_info.experiment_name
        return made

    async def reset(self):
        return [{"role": "user", "content": f"A run called {self.name}."}]


class Talks(Guess):
    """Answers at length, for ever."""

    async def step(self, action):
        return [{"role": "user", "content": "blah " * 300}], 0.0, False, {}


class Calculator(Guess):
    """Offers a tool, and wants its result told."""

    traits = EnvironmentTraits(offers_tools=True)
    tools = ({"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}},)

    async def step(self, action):
        self.note("step")
        calls = action.get("tool_calls") or []
        if not calls:
            self.solved = action["content"] == "3"
            return [], float(self.solved), True, {}
        self.note(calls[0]["function"]["name"])
        return [{"role": "tool", "tool_call_id": calls[0]["id"], "content": "3"}], 0.0, False, {}


class FailsToBeMade(Guess):
    def __init__(self, workflow_task):
        raise OSError("no server")


class FailsInReset(Guess):
    async def reset(self):
        raise OSError("no world")


class FailsInStep(Guess):
    async def step(self, action):
        raise KeyError("door")


class LosesItsServer(Guess):
    async def step(self, action):
        try:
            raise ConnectionResetError("reset by peer")
        except ConnectionResetError as error:
            raise OSError("the game is lost") from error


class FailsInEvaluate(Guess):
    async def evaluate(self):
        raise ValueError("no score")


class FailsInClose(Guess):
    async def close(self):
        self.note("close")
        raise OSError("stuck")


class Ends(Guess):
    """Raises what is not an `Exception`, in the method that the task names."""

    raised: ClassVar[dict[str, type[BaseException]]] = {
        "exits": SystemExit,
        "cancels": asyncio.CancelledError,
        "interrupts": KeyboardInterrupt,
    }

    def __init__(self, workflow_task):
        self.where, what = workflow_task.task.metadata["ends"]
        self.what = self.raised[what]
        self.end_in("being made")
        super().__init__(workflow_task)

    def end_in(self, method):
        if method == self.where:
            raise self.what

    async def reset(self):
        self.end_in("reset")
        return await super().reset()

    async def step(self, action):
        self.end_in("step")
        return await super().step(action)

    async def evaluate(self):
        self.end_in("evaluate")
        return await super().evaluate()

    async def close(self):
        self.note("close")
        self.end_in("close")


class ExitsInATask(Guess):
    """A task of its own raises `SystemExit`, between the steps."""

    async def reset(self):
        self.left = asyncio.ensure_future(self.exit())
        return await super().reset()

    async def exit(self):
        raise SystemExit(3)

    async def step(self, action):
        await asyncio.wait([self.left])
        return await super().step(action)

    async def close(self):
        self.left.exception()
        await super().close()


class Hangs(Guess):
    async def step(self, action):
        self.note("hanging")
        await asyncio.sleep(600)


class Beats(Guess):
    """Keeps a heartbeat going while it lives, as a client of a server does."""

    async def reset(self):
        self.heartbeat = asyncio.ensure_future(self.beat())
        return await super().reset()

    async def beat(self):
        try:
            while True:
                await asyncio.sleep(0.01)
        finally:
            self.note("last beat")

    async def step(self, action):
        await asyncio.sleep(0.05)
        assert not self.heartbeat.done()
        return await super().step(action)

    async def close(self):
        self.heartbeat.cancel()
        await asyncio.wait([self.heartbeat])
        self.note("close")


class CleansUp(Guess):
    async def step(self, action):
        self.note("hanging")
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.05)
            self.note("cleaned up")


class ClosesSlowly(Guess):
    async def close(self):
        self.note("close")
        await asyncio.sleep(0.2)
        self.note("closed")


class HangsInClose(Guess):
    async def close(self):
        self.note("close")
        await asyncio.sleep(600)


class BlocksForLong(Guess):
    async def step(self, action):
        time.sleep(1.0)
        return await super().step(action)


class Blocks(Guess):
    """Holds the thread that it runs in."""

    async def step(self, action):
        time.sleep(0.3)
        return await super().step(action)


class SaysNothing(Guess):
    async def reset(self):
        return []


class ReturnsText(Guess):
    async def reset(self):
        return "Guess!"


class ReturnsThree(Guess):
    async def step(self, action):
        return [], 0.0, True


class NoReward(Guess):
    async def step(self, action):
        return [], None, True, {}


class NanScore(Guess):
    async def evaluate(self):
        return float("nan")


class Blocking(Guess):
    def reset(self):
        return [{"role": "user", "content": "hi"}]


class OddInfo(Guess):
    async def step(self, action):
        return [], 0.0, True, {"seen": {1}, "big": "x" * 70_000 if action["content"] == "big" else ""}


class Scientific(Guess):
    """Gives what NumPy gives, and text as it came from a file."""

    async def reset(self):
        return [{"role": "user", "content": "Guess \ud83d", "level": np.int64(3)}]

    async def step(self, action):
        return (
            [{"role": "user", "content": "right"}],
            np.float32(0.5),
            np.bool_(True),
            {"p": np.float32(0.25), "at": date(2026, 1, 2)},
        )

    async def evaluate(self):
        return np.array([0.75])


class NoClose:
    def __init__(self, workflow_task):
        pass

    async def reset(self): ...

    async def step(self, action): ...

    async def evaluate(self): ...
