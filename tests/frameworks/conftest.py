from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from attrs import define
from one_quickstart import one_quickstart

from astuner.contract.schema import Sampling
from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine
from astuner.model.gateway import EpisodeRecorder, EpisodeSpec, Gateway
from astuner.model.rendering import TemplateRenderer
from astuner_devkit import tiny_tokenizer


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "agentscope1: needs AgentScope 1, which shares no environment with AgentScope 2")
    # It gives its servers the stderr of the moment at which it is imported; that of a command in a test is no file.
    with suppress(ImportError):
        import mcp.client.stdio  # noqa: F401


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warm-started model of the quickstart."""
    return one_quickstart(tmp_path_factory) / "model"


class CountingEngine(ScriptedEngine):
    """Counts the generations under way."""

    under_way = 0

    async def generate(self, request: Any) -> AsyncIterator[Any]:
        self.under_way += 1
        try:
            async for chunk in super().generate(request):
                yield chunk
        finally:
            self.under_way -= 1


@define(eq=False)
class Stage:
    recorder: EpisodeRecorder
    engine: CountingEngine


@pytest.fixture(scope="session")
def renderer() -> TemplateRenderer:
    return TemplateRenderer(tiny_tokenizer())


@pytest.fixture
def playing(renderer: TemplateRenderer) -> Callable[..., Any]:
    """Open a gateway, an engine that says one reply after the other, and an episode: `async with playing(replies) as stage`.

    `options` go to the gateway.
    """

    @asynccontextmanager
    async def play(replies: tuple[str, ...], delay_s: float = 0.0, **options: Any) -> AsyncIterator[Stage]:
        script = list(replies)
        pause = CountingEngine.Options(delay_s=delay_s)
        engine = CountingEngine(pause, tokenizer=renderer.tokenizer, reply=lambda prompt, request: script.pop(0))
        await engine.start()
        gateway = Gateway(engine, renderer, **options)
        await gateway.start()
        spec = EpisodeSpec(
            episode_id="train/1/task/0",
            seed=7,
            sampling=Sampling(temperature=1.0, max_tokens=2000),
            max_model_len=8000,
            trainable_targets=None,
        )
        try:
            yield Stage(gateway.open_episode(spec), engine)
        finally:
            await gateway.close()
            await engine.close()

    return play
