"""One real vLLM server for all tests of this folder, and a second one for what a tied model cannot show."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from one_quickstart import one_quickstart
from quickstart_project import QuickstartProject
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from astuner.settings.config.model import Config, Model, Ready
from astuner.settings.config.rollout import Rollout
from astuner.shared.processes import ProgramSpec, free_port, launch, wait_until_ready
from astuner_devkit.run_infos import run_info
from astuner_local.tiny.tokenizer import train_tokenizer
from astuner_vllm.command import server_command
from astuner_vllm.installed import installed
from astuner_vllm.options import VllmOptions

CONTEXT = 65536
"""Longer than any server answers while a test gets a word in, on a machine with other work too."""
START_S = 300


# Before xdist looks at the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.long)
            # One process has the shared servers, and one plays runs that start their own.
            fixtures = getattr(item, "fixturenames", ())
            item.add_marker(pytest.mark.xdist_group("vllm-runs" if "project" in fixtures else "vllm-servers"))
            if installed() is None:
                item.add_marker(pytest.mark.skip(reason="vLLM is not installed"))


class Server:
    """A running server, spoken to as plainly as can be."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.headers = {"authorization": f"Bearer {key}"}

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        # A connection each: vLLM closes it behind the client's back after an error of its own.
        return httpx.post(self.url + path, json=body, headers=self.headers, timeout=60)

    def body(self, prompt: Sequence[int], *, model: str = "policy", stream: bool = False, **sampling: Any) -> dict[str, Any]:
        defaults = {"max_tokens": 24, "temperature": 0.0, "logprobs": 0, "ignore_eos": True}
        return {"model": model, "token_ids": list(prompt), "stream": stream, "sampling_params": {**defaults, **sampling}}

    def generate(self, prompt: Sequence[int], **sampling: Any) -> dict[str, Any]:
        answer = self.post("/inference/v1/generate", self.body(prompt, **sampling))
        assert answer.status_code == 200, answer.text
        choice: dict[str, Any] = answer.json()["choices"][0]
        return choice

    def load_weights(self, path: Path, version: str) -> None:
        for call, body in (
            ("/start_weight_update", None),
            ("/update_weights", {"update_info": {"path": str(path)}}),
            ("/finish_weight_update", {"weight_version": version}),
            ("/reset_prefix_cache", None),
        ):
            answer = self.post(call, body)
            assert answer.status_code == 200, answer.text


class Models:
    """Tiny models with random weights: two of each kind, as `tied-0`, and transformers' own view of them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._tokenizer = train_tokenizer(["The answer is", "Use your tools."])
        self._loaded: dict[Path, Any] = {}

    def path(self, name: str) -> Path:
        home = self.directory / name
        if not home.exists():
            kind, _, seed = name.partition("-")
            torch.manual_seed(int(seed))
            Qwen2ForCausalLM(self._config(tied=kind == "tied")).save_pretrained(home)
            self._tokenizer.save_pretrained(home)
        return home

    def logits(self, model: Path | str, prompt: Sequence[int], ids: Sequence[int]) -> torch.Tensor:
        """Return the logits from which each of some sampled ids came: [ids, vocabulary]."""
        path = self.path(model) if isinstance(model, str) else model
        if path not in self._loaded:
            self._loaded[path] = AutoModelForCausalLM.from_pretrained(path).eval()
        with torch.no_grad():
            logits = self._loaded[path](torch.tensor([[*prompt, *ids]])).logits[0].float()
        found: torch.Tensor = logits[len(prompt) - 1 : -1]
        return found

    def _config(self, *, tied: bool) -> Qwen2Config:
        return Qwen2Config(
            vocab_size=len(self._tokenizer),
            hidden_size=96,
            intermediate_size=192,
            num_hidden_layers=2,
            num_attention_heads=3,
            num_key_value_heads=3,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=tied,
            initializer_range=0.08,
            bos_token_id=None,
            eos_token_id=self._tokenizer.eos_token_id,
            pad_token_id=self._tokenizer.pad_token_id,
        )


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    torch.set_num_threads(1)
    return Models(tmp_path_factory.mktemp("models"))


@contextmanager
def serve(model: Path, home: Path, *, lora_rank: int = 0) -> Iterator[Server]:
    vllm = installed()
    assert vllm is not None
    port, key = free_port(), secrets.token_urlsafe(24)
    config = Config(model=Model(path=str(model), lora_rank=lora_rank), rollout=Rollout(max_num_seqs=32, max_model_len=CONTEXT))
    run = run_info(home, backbone="local", config=config)
    command = server_command(VllmOptions(cpu_threads=1), run, port=port, vllm=vllm, api_key=key)
    url = f"http://127.0.0.1:{port}"
    started = launch(
        ProgramSpec(
            command=command.argv, kind="server", name="test", log=home / "server.log", cwd=home, env=command.env, port=port
        )
    )
    try:
        asyncio.run(wait_until_ready(started, Ready(url=f"{url}/health"), START_S, print))
        server = Server(url, key)
        assert server.post("/init_weight_transfer_engine", {"init_info": {}}).status_code == 200
        yield server
    finally:
        started.end()


@pytest.fixture(scope="session")
def tied_server(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with `tied-0`; whoever loads other weights loads these again."""
    with serve(models.path("tied-0"), tmp_path_factory.mktemp("tied")) as server:
        yield server


@pytest.fixture(scope="session")
def untied_server(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with `untied-0` that takes adapters; whoever loads other weights loads these again."""
    with serve(models.path("untied-0"), tmp_path_factory.mktemp("untied"), lora_rank=8) as server:
        yield server


class Project(QuickstartProject):
    """The quickstart's project with vLLM."""

    def train(self, *settings: str, steps: int = 3, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.cli("run", "--conf", "tune.yaml", *self.short(steps), *settings, **options)

    def short(self, steps: int) -> tuple[str, ...]:
        """Return the arguments of a run of so many small steps with vLLM."""
        settings = {
            "rollout.name": "vllm",
            "data.train_batch_size": 3,
            "rollout.num_repeat": 4,
            "trainer_common.total_training_steps": steps,
            "trainer_common.val_before_train": "false",
            "trainer_common.optim.lr_scheduler_type": "constant",
        }
        return ("--backbone=local", *(f"--set={key}={value}" for key, value in settings.items()))


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with its warm-started model. Not to be written to."""
    return one_quickstart(tmp_path_factory)


@pytest.fixture
def project(quickstart: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project to run in; after the test nothing that it started may be alive, and nothing of it be in memory."""
    monkeypatch.setenv("ASTUNER_STATE_DIR", str(tmp_path / "state"))
    with Project.copy_beside(quickstart, tmp_path) as project:
        yield project
