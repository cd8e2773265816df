"""What `astuner export` writes, served as a user serves it: by `vllm serve`, asked by the OpenAI SDK."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from openai import OpenAI
from transformers import AutoModelForCausalLM, AutoTokenizer

from astuner.settings.config.model import Ready
from astuner.shared.processes import ProgramSpec, free_port, launch, wait_until_ready

pytestmark = pytest.mark.slow
START_S = 600


@pytest.fixture
def exported(project) -> Path:
    """The Hugging Face export of a run of two steps."""
    trained = project.train("--set=rollout.name=local", steps=2)
    assert trained.returncode == 0, trained.stderr
    ended = project.cli("export", "launcher_record/calculator", "--format", "hf", "--out", project.home / "tuned")
    assert ended.returncode == 0, ended.stderr
    return project.home / "tuned"


@pytest.fixture
def address(exported: Path, tmp_path: Path) -> Iterator[str]:
    port = free_port()
    # What `vllm serve` starts; the command itself looks for a distribution `vllm`, and that for CPUs has another name.
    command = (sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(exported), "--port", str(port))
    command += ("--dtype", "float32", "--max-model-len", "512", "--served-model-name", "tuned")
    log = tmp_path / "server.log"
    env = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "1")}
    started = launch(ProgramSpec(command=command, kind="server", name="exported", log=log, cwd=tmp_path, env=env, port=port))
    try:
        asyncio.run(wait_until_ready(started, Ready(url=f"http://127.0.0.1:{port}/health"), START_S, print))
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        started.end()


def test_greedy_answers_are_those_of_transformers(exported: Path, address: str) -> None:
    client = OpenAI(base_url=address, api_key="none")
    tokenizer = AutoTokenizer.from_pretrained(exported)
    model = AutoModelForCausalLM.from_pretrained(exported, dtype=torch.float32).eval()
    for text in ("What is 2 + 3?", "12 * 34", "The capital of France?"):
        messages = [{"role": "user", "content": text}]
        found = client.chat.completions.create(model="tuned", messages=messages, temperature=0.0, max_tokens=24)
        prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        ids = model.generate(**prompt, max_new_tokens=24, do_sample=False)[0, prompt["input_ids"].shape[1] :]
        assert found.choices[0].message.content == tokenizer.decode(ids, skip_special_tokens=True)
