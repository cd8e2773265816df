"""An environment of `verifiers` with two agents: the first talks for three turns, the second answers once."""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf
from vowels import InProcessHarness

__all__ = ["DuelEnv", "DuelTaskset", "InProcessHarness"]


class DuelTaskset(vf.Taskset[vf.Task, vf.TasksetConfig]):
    INFINITE = True

    def load(self) -> Iterator[vf.Task]:
        number = 0
        while True:
            yield vf.Task(vf.TaskData(prompt=f"Round {number}."), self.config.task)
            number += 1


class DuelConfig(vf.EnvConfig):
    first: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    second: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    freeze_second: bool = False
    box_is_lost: bool = False


class DuelEnv(vf.Env[DuelConfig]):
    async def setup(self, agents: vf.Agents) -> None:
        agents.second.trainable = not self.config.freeze_second
        if self.config.box_is_lost:
            raise vf.SandboxError("the box is gone")

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        async with agents.first.interaction(task) as talk:
            segment = await talk.turn()
            for _ in range(2):
                if not segment.terminated:
                    segment = await talk.turn("Again.")
        await agents.second.run(task)

    async def finalize(self, task: vf.Task, episode: vf.Episode) -> None:
        for trace in episode.traces:
            trace.record_reward("length", len(trace.last_reply))
