"""The engine of `rollout_workers.py`: the same answer each time, after a while, as a server gives it; and the agent that asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from attrs import frozen
from traffic import ANSWER, TOOLS, first_messages, results

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask
from astuner.contract.protocols import EngineTraits, RunInfo
from astuner.contract.schema import Capabilities, Chunk, Request
from astuner.model.rendering import load_renderer


class StubEngine:
    """Sleeps, and answers with a tool call and padding up to the wanted number of tokens."""

    capabilities = Capabilities(reproducible=True)

    @frozen(kw_only=True)
    class Options:
        """Of the answers."""

        turn_s: float = 1.0
        tokens: int = 128

    def __init__(self, options: StubEngine.Options, run_info: RunInfo) -> None:
        """Use `from_run`."""
        self.options, self.run_info = options, run_info

    @classmethod
    def from_run(cls, options: StubEngine.Options | None, run_info: RunInfo) -> StubEngine:
        """Make it; `start` loads the tokenizer."""
        return cls(options or cls.Options(), run_info)

    async def start(self) -> None:
        """Encode the answer."""
        tokenizer = load_renderer(self.run_info.config.model.path).tokenizer
        said = tokenizer.encode(ANSWER, add_special_tokens=False)
        word = tokenizer.encode(" so", add_special_tokens=False)[:1]
        self._ids = [*word * max(0, self.options.tokens - len(said) - 1), *said]

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the answer at once."""
        await asyncio.sleep(self.options.turn_s)
        draw = Random(request.sampling.seed)
        ids = [*self._ids, request.sampling.stop_token_ids[0]]
        yield Chunk(ids=ids, logprobs=[-draw.random()] * len(ids), finish_reason="stop")

    async def release(self, session: str) -> None:
        """Nothing is kept."""

    async def update_weights(self, ref: Any, version: int) -> None:
        """There are no weights."""

    async def pause(self) -> None:
        """Nothing to do."""

    async def resume(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""


@frozen
class StubAccess:
    """Opens the same engine in a worker, as a client of the same servers would be."""

    options: StubEngine.Options
    run_info: RunInfo
    same_machine: bool = False

    def open(self) -> StubEngine:
        """Make it."""
        return StubEngine(self.options, self.run_info)


class ReachableStubEngine(StubEngine):
    """Other processes reach its servers without this one."""

    traits = EngineTraits(gives_access=True)

    def give_access(self) -> StubAccess:
        """Return the way."""
        return StubAccess(self.options, self.run_info)


class ToolAgent(Workflow):
    """Holds a conversation with tools through the OpenAI SDK, as the documentation shows it."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play the turns of the task."""
        client = tuner.as_raw_openai_sdk_client()
        name = workflow_task.episode_id
        messages: list[Any] = first_messages(name)
        for turn in range(workflow_task.task.metadata["turns"]):
            answer = await client.chat.completions.create(model="any", messages=messages, tools=TOOLS)  # type: ignore[call-overload]
            messages += results(name, turn, answer.choices[0].message.model_dump(exclude_none=True))
        return WorkflowOutput(reward=float(workflow_task.repeat))
