"""A taskset of `verifiers` that wants letters of the Latin alphabet, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf
from vowels import InProcessHarness

__all__ = ["InProcessHarness", "PlainTextTaskset"]


class PlainTextTask(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    @vf.reward
    async def letters(self, trace: vf.Trace) -> float:
        reply = trace.last_reply
        return sum(char.isascii() and char.isalpha() for char in reply) / len(reply) if reply else 0.0


class PlainTextTaskset(vf.Taskset[PlainTextTask, vf.TasksetConfig]):
    def load(self) -> Iterator[PlainTextTask]:
        for word in ("a", "e"):
            yield PlainTextTask(vf.TaskData(prompt=f"Say {word}."), self.config.task)
