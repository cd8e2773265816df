"""A gateway for programs that are coding agents: an engine that says what a test wants, and what was recorded."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from astuner.contract.protocols import EpisodeIdentity
from astuner.contract.schema import Call, Sampling
from astuner.contract.token_streams import stream_ids
from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine
from astuner.episodes.builtin.trackers.timeline import TimelineTracker
from astuner.model.gateway import EpisodeRecorder, EpisodeSpec, Gateway
from astuner.model.rendering import TemplateRenderer
from astuner_devkit import tiny_tokenizer

CONTEXT = 200_000
"""Tokens. The tiny tokenizer needs two or three characters for one, and the instructions of such agents are long."""

LONGEST_S = 120
"""For one run of a program, on a busy machine."""


@frozen(kw_only=True)
class Finished:
    """A program that has ended."""

    status: int
    output: str
    """What it printed, its errors included."""


@frozen(kw_only=True)
class AgentStage:
    """One episode, and the gateway that records it."""

    gateway: Gateway
    recorder: EpisodeRecorder

    @property
    def address(self) -> str:
        """The base of the OpenAI-compatible APIs, with `/v1`."""
        return self.recorder.tuner.as_oai_baseurl_apikey().base_url

    @property
    def key(self) -> str:
        return self.recorder.tuner.as_oai_baseurl_apikey().api_key

    async def run(self, command: Sequence[object], home: Path, work: Path, variables: Mapping[str, str]) -> Finished:
        """Run a program to its end with nothing of this process's environment but its paths; TimeoutError if it hangs."""
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            *map(str, command),
            cwd=work,
            env={**kept, "HOME": str(home), "NO_PROXY": "127.0.0.1", **variables},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(LONGEST_S):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return Finished(status=process.returncode or 0, output=output.decode(errors="replace"))


@asynccontextmanager
async def open_stage(reply: Callable[[str], str], trainable_targets: Sequence[str] | None = None) -> AsyncIterator[AgentStage]:
    """Open a gateway and an episode; `reply` makes the answer to a rendered prompt."""
    renderer = TemplateRenderer(tiny_tokenizer())
    engine = ScriptedEngine(tokenizer=renderer.tokenizer, reply=lambda prompt, request: reply(prompt))
    await engine.start()
    gateway = Gateway(engine, renderer)
    await gateway.start()
    spec = EpisodeSpec(
        episode_id="train/1/task/0",
        seed=7,
        sampling=Sampling(temperature=1.0, max_tokens=2000),
        max_model_len=CONTEXT,
        trainable_targets=trainable_targets,
    )
    recorder = gateway.open_episode(spec)
    try:
        yield AgentStage(gateway=gateway, recorder=recorder)
    finally:
        await recorder.close()
        await gateway.close()
        await engine.close()


def check_training(calls: Sequence[Call]) -> int:
    """Assert that every sampled token is trained once or counted under a reason; return the number of trained ones."""
    tracked = TimelineTracker().samples(calls, EpisodeIdentity(episode_id="train/1/task/0", task_id="task", repeat=0))
    trained = sum(int(sample.mask.sum()) for sample in tracked.samples)
    assert trained + sum(tracked.untrained.values()) == sum(len(call.output_ids) for call in calls)
    return trained


def continues(calls: Sequence[Call], index: int, earlier: int) -> bool:
    """Whether a call continues the whole stream of an earlier one, its sampled tokens included."""
    call = calls[index]
    return call.parent == earlier and call.kept == len(stream_ids(calls, earlier))


def write_tool_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as a model of the tiny tokenizer's template writes it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
