"""An agent in a process of its own, which is killed in the middle of an answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

STREAMING_AGENT = Path(__file__).parent / "streaming_agent.py"


@pytest.mark.asyncio
async def test_an_agent_killed_in_mid_stream_frees_its_slot(playing: Callable[..., Any]):
    async with playing(("so " * 2000, "after"), delay_s=0.02) as stage:
        api = stage.recorder.tuner.as_oai_baseurl_apikey()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(STREAMING_AGENT),
            env={"OPENAI_BASE_URL": api.base_url, "OPENAI_API_KEY": api.api_key},
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        async with asyncio.timeout(30):
            first = await process.stdout.readline()
            assert stage.engine.under_way == 1
            process.kill()
            await process.wait()
            while stage.engine.under_way:
                await asyncio.sleep(0.01)
            while not stage.recorder.calls:
                await asyncio.sleep(0.01)
        (call,) = stage.recorder.calls
    assert first.startswith(b"data: ")
    assert (call.finish_reason, call.untrained) == ("abort", "aborted")
    assert 0 < len(call.output_ids) < 2000
