"""A taskset of `verifiers` that wants vowels, and a harness that asks the model in this process."""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf
from openai import AsyncOpenAI
from verifiers.v1.dialects.chat import message_to_wire

__all__ = ["InProcessHarness", "VowelsTaskset"]


class VowelsData(vf.TaskData):
    vowel: str


class VowelsTask(vf.Task[VowelsData, vf.State, vf.TaskConfig]):
    @vf.reward(weight=2.0)
    async def share(self, trace: vf.Trace) -> float:
        reply = trace.last_reply
        return reply.count(self.data.vowel) / len(reply) if reply else 0.0

    @vf.reward(weight=0.5)
    async def short(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply) <= 4)

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        if trace.last_reply == "raise":
            raise KeyError("the metric")
        return float(len(trace.last_reply))


class VowelsConfig(vf.TasksetConfig):
    vowels: str = "aeiou"


class VowelsTaskset(vf.Taskset[VowelsTask, VowelsConfig]):
    def load(self) -> Iterator[VowelsTask]:
        for vowel in self.config.vowels:
            data = VowelsData(id=f"vowel-{vowel}", prompt=f"Say {vowel}.", system_prompt="You are brief.", vowel=vowel)
            yield VowelsTask(data, self.config.task)


class InProcessHarness(vf.Harness[vf.HarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):  # type: ignore[no-untyped-def]
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        messages += [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(map(message_to_wire, prompt or []))
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0) as client:
            await client.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")
