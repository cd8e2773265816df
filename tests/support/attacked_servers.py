"""Servers that tests attack: a gateway in this process, and programs that serve.

`ASTUNER_FUZZ_REQUESTS` says how much each server gets; `ASTUNER_FUZZ_SEED` makes it something else.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx

from astuner.contract.schema import Sampling
from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine
from astuner.model.gateway import EpisodeSpec, Gateway
from astuner.model.rendering import TemplateRenderer
from astuner_devkit.tokenizer import tiny_tokenizer

REQUESTS = int(os.environ.get("ASTUNER_FUZZ_REQUESTS", "150"))
SEED = int(os.environ.get("ASTUNER_FUZZ_SEED", "1"))


@contextmanager
def started(*arguments: str, output: Path) -> Iterator[tuple[tuple[str, int], subprocess.Popen[bytes]]]:
    """Run a command that serves; yield its address and its process."""
    with output.open("w") as out:
        process = subprocess.Popen([sys.executable, "-m", "astuner", *arguments], stdout=out, stderr=subprocess.STDOUT)
    try:
        while (match := re.search(r"127\.0\.0\.1:(\d+)", output.read_text())) is None:
            assert process.poll() is None, output.read_text()
        yield ("127.0.0.1", int(match[1])), process
        assert process.poll() in (None, 0)
    finally:
        process.terminate()
        process.wait()


@asynccontextmanager
async def gateway() -> AsyncIterator[tuple[tuple[str, int], str]]:
    tokenizer = tiny_tokenizer()
    engine = ScriptedEngine(tokenizer=tokenizer, reply=lambda prompt, request: "yes")
    await engine.start()
    served = Gateway(engine, TemplateRenderer(tokenizer))
    await served.start()
    spec = EpisodeSpec(
        episode_id="e", seed=1, sampling=Sampling(max_tokens=20), max_model_len=4000, trainable_targets=None, max_steps=None
    )
    key = served.open_episode(spec).tuner.as_oai_baseurl_apikey().api_key
    url = httpx.URL(served.base_url)
    yield (url.host, url.port or 0), key
    await served.close()
    await engine.close()
