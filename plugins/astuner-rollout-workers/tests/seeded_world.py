"""An engine whose answers depend on the request alone, and workflows that fail, retry and crash on purpose."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

from astuner import Judge, Tuner, Verdict, Workflow, WorkflowOutput, WorkflowTask
from astuner.contract.errors import ServiceUnavailable
from astuner.contract.protocols import EngineTraits, RunInfo
from astuner.contract.schema import Capabilities, Chunk, Group, Request
from astuner.model.rendering import load_renderer


class SeededEngine:
    """Samples digits by the seed of the request."""

    def __init__(self, run_info: RunInfo) -> None:
        self._run_info = run_info
        # Made in the driver, before any worker.
        if not (Path(__file__).parent / "driver").exists():
            (Path(__file__).parent / "driver").write_text(str(os.getpid()))
        self._path = run_info.config.model.path
        self.capabilities = Capabilities(reproducible=True, weight_updates=True)
        self.served: list[str] = []

    @classmethod
    def from_run(cls, options: Any, run_info: RunInfo) -> SeededEngine:
        return cls(run_info)

    async def start(self) -> None:
        self._tokenizer = load_renderer(self._path).tokenizer

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        draw = Random(request.sampling.seed)
        text = str(draw.randrange(10**6))
        ids = [*self._tokenizer.encode(text, add_special_tokens=False), *request.sampling.stop_token_ids[:1]]
        note_process(self._run_info.directory, f"asked-{os.getpid()}")
        for place, number in enumerate(ids):
            await asyncio.sleep(0)
            ends = "stop" if place + 1 == len(ids) else None
            yield Chunk(ids=[number], logprobs=[-draw.random()], finish_reason=ends, weight_version=3)

    async def release(self, session: str) -> None: ...

    async def update_weights(self, ref: Any, version: int) -> None: ...

    async def pause(self) -> None: ...

    async def resume(self) -> None: ...

    async def close(self) -> None: ...


class OwnAccess:
    """Opens the same engine in a worker."""

    same_machine = True

    def __init__(self, run_info: RunInfo) -> None:
        self.run_info = run_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnAccess)

    def __hash__(self) -> int:
        return 0

    def open(self) -> SeededEngine:
        return SeededEngine(self.run_info)


class SharedSeededEngine(SeededEngine):
    """Workers reach its models without it."""

    traits = EngineTraits(gives_access=True)

    def give_access(self) -> OwnAccess:
        return OwnAccess(self._run_info)


def note_process(directory: Path, name: str) -> None:
    """Leave a file, whose name tells which process was here."""
    (directory / name).touch()


class TwoTurns(Workflow):
    """Asks twice; some tasks raise, some lose their surroundings once."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        client = tuner.as_raw_openai_sdk_client()
        messages: list[Any] = [{"role": "user", "content": workflow_task.task.main_query}]
        said = []
        for _ in range(2):
            answer = await client.chat.completions.create(model="any", messages=messages)
            said.append(answer.choices[0].message.content)
            messages += [{"role": "assistant", "content": said[-1]}, {"role": "user", "content": "And now?"}]
        what = workflow_task.task.metadata.get("what")
        if what == "raises" and workflow_task.repeat == 1:
            raise ValueError("a fault of the agent")
        if what == "retried" and workflow_task.attempt == 0:
            raise ServiceUnavailable("the sandbox is down")
        metrics = {"pair": float(len("".join(said))), "text": "no number"}
        return WorkflowOutput(metadata={"final_answer": " ".join(said), "pid": os.getpid()}, log_metrics=metrics)  # type: ignore[arg-type]


class Crashing(TwoTurns):
    """Its process dies once, in the middle of an episode; the mark is next to the YAML."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        mark = Path(__file__).parent / "crashed"
        if workflow_task.task.task_id == "t3" and workflow_task.repeat == 1:
            # Its siblings are finished by then.
            await asyncio.sleep(0.5)
            if not mark.exists() or (mark.parent / "always").exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return await super().execute(workflow_task, tuner)


class Gated(TwoTurns):
    """Its later tasks wait for a file next to the YAML."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        gate = Path(__file__).parent / "go"
        while workflow_task.task.task_id in ("t3", "t4", "t5") and not gate.exists():
            await asyncio.sleep(0.05)
        return await super().execute(workflow_task, tuner)


class Stopping(TwoTurns):
    """Lets the run stop, as Ctrl-C does, after some episodes; the mark is next to the YAML."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        home = Path(__file__).parent
        if workflow_task.task.task_id in ("t4", "t5") and not (home / "stop").exists():
            stored = home / "launcher_record" / "run2" / "episodes" / "train.jsonl"
            while stored.read_bytes().count(b'"kind":"episode"') < 12:
                await asyncio.sleep(0.05)
            parent = int((home / "driver").read_text())
            if workflow_task.episode_id.endswith("t4/0"):
                os.kill(parent, signal.SIGINT)
            await asyncio.sleep(600)
        return await super().execute(workflow_task, tuner)


class LastDigit(Judge):
    """Scores by the last digit."""

    async def judge(self, group: Group) -> list[Verdict]:
        return [
            Verdict(int(episode.output.metadata["final_answer"][-1]) / 10, components={"digit": 1.0})
            for episode in group.episodes
            if episode.output is not None
        ]


class Unmade(Judge):
    """Cannot be made."""

    def __init__(self) -> None:
        raise ValueError("the judge needs a key")

    async def judge(self, group: Group) -> list[Verdict]:
        return []
