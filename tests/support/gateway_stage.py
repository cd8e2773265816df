"""A gateway with an engine that says what a test wants, for the tests of every wire API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import define

from astuner.contract.protocols import Engine
from astuner.contract.schema import Sampling
from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine
from astuner.model.gateway import EpisodeRecorder, EpisodeSpec, Gateway
from astuner.model.rendering import TemplateRenderer


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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that many APIs share with the paths of its module: those of `BODIES`, and those of `COUNTS` as well."""
    if {"api_path", "way"} <= set(metafunc.fixturenames):
        # The routes of some APIs say themselves whether they stream.
        ways = [(path, way) for path in metafunc.module.BODIES for way in ("stream", "whole")]
        found = [(path, way) for path, way in ways if ":" not in path or (":stream" in path) == (way == "stream")]
        metafunc.parametrize(("api_path", "way"), found)
    elif "api_path" in metafunc.fixturenames:
        metafunc.parametrize("api_path", metafunc.module.BODIES)
    if "any_path" in metafunc.fixturenames:
        metafunc.parametrize("any_path", [*metafunc.module.BODIES, *metafunc.module.COUNTS])


@pytest.fixture
def bodies(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """Return a valid body for each path of the module."""
    return {**request.module.BODIES, **request.module.COUNTS}


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
