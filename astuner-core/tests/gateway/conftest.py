"""A real tokenizer made on the spot, and a gateway with an engine that says what a test wants."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import define

from astuner.builtin.scripted_engine import ScriptedEngine
from astuner.gateway import EpisodeRecorder, EpisodeSpec, Gateway, TemplateRenderer, rendering_conversations
from astuner.protocols import Engine
from astuner.schema import Sampling
from astuner.testing.tokenizer import tiny_tokenizer


def build_tokenizer(template: str = "chatml") -> Any:
    path = Path(__file__).parent / "templates" / f"{template}.jinja"
    return tiny_tokenizer(path.read_text() if path.exists() else None)


@pytest.fixture(scope="session")
def make_renderer() -> Callable[[str], TemplateRenderer]:
    made: dict[str, TemplateRenderer] = {}

    def make(template: str) -> TemplateRenderer:
        if template not in made:
            made[template] = TemplateRenderer(build_tokenizer(template))
        return made[template]

    return make


@pytest.fixture(scope="session")
def renderer(make_renderer: Callable[[str], TemplateRenderer]) -> TemplateRenderer:
    return make_renderer("chatml")


@define(eq=False)
class Stage:
    gateway: Gateway
    recorder: EpisodeRecorder
    engine: Engine

    def client(self, agent: str = "agent", target: str | None = None, **kwargs: Any) -> Any:
        return self.recorder.tuner.as_raw_openai_sdk_client(agent, target, **kwargs)

    def socket_client(self, agent: str = "agent") -> Any:
        return self.recorder.tuner.remote().as_raw_openai_sdk_client(agent)


def spec(**changes: Any) -> EpisodeSpec:
    known = {
        "episode_id": "train/1/task/0",
        "seed": 7,
        "sampling": Sampling(temperature=1.0, max_tokens=200),
        "max_model_len": 4000,
        "trainable_targets": None,
    }
    return EpisodeSpec(**{**known, **changes})


@pytest.fixture
def serving(renderer: TemplateRenderer) -> Callable[..., Any]:
    """Open a gateway and an episode: `async with serving("the answer") as stage`."""

    @asynccontextmanager
    async def serve(
        says: Any = "hello", *, engine: Engine | None = None, gateway: Any = None, **changes: Any
    ) -> AsyncIterator[Stage]:
        if engine is None:
            script = list(says) if isinstance(says, list) else None
            answer = (lambda prompt, request: script.pop(0)) if script is not None else lambda prompt, request: says
            engine = ScriptedEngine(tokenizer=renderer.tokenizer, reply=says if callable(says) else answer)
        await engine.start()
        served = Gateway(engine, renderer if engine.capabilities.token_ids else None, **(gateway or {}))
        await served.start()
        recorder = served.open_episode(spec(**changes))
        try:
            yield Stage(served, recorder, engine)
        finally:
            await served.close()
            await engine.close()

    return serve


@pytest.fixture(scope="module")
def every_conversation_in_steps() -> Iterator[None]:
    """Short ones too are rendered from where they were rendered before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rendering_conversations, "SHORTEST", 0)
        yield
