"""A tiny model on disk, which the double trains and the tests of the plugin tune."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tinker
import torch
from tinker_double import Behaviour, ServiceDouble

from astuner.contract.protocols import TinyModelJob
from astuner_local.tiny.task_model import make_tiny_model
from astuner_local.tiny.task_tokenizer import make_tiny_tokenizer
from astuner_tinker import service


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Qwen2 of two layers and a byte-level tokenizer with a chat template. Not to be written to."""
    folder = tmp_path_factory.mktemp("tiny")
    job = TinyModelJob(out=folder, texts=["What is 2 + 3?", "The answer is 5."], context=512, seed=0)
    make_tiny_tokenizer(job)
    make_tiny_model(job)
    return folder


@pytest.fixture(autouse=True)
def _own_cache_and_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured of one double is not taken for true of the next."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("TINKER_API_KEY", "TINKER_BASE_URL", "TINKER_CREDENTIAL_CMD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def serve(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ServiceDouble]:
    """Put a double in the place of the server that runs of this process connect to."""

    def start(behaviour: Behaviour | None = None, root: Path | None = None) -> ServiceDouble:
        double = ServiceDouble(root or tmp_path / "server", behaviour, base_models=[str(tiny_model)])
        monkeypatch.setenv("TINKER_BASE_URL", "http://127.0.0.1:9")
        monkeypatch.setattr(tinker, "ServiceClient", lambda **_: double)
        monkeypatch.setattr(service, "identify_server", lambda url: service.Server(name="unknown", url=url, title="double"))
        return double

    return start
