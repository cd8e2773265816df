"""A tiny model on disk, which the double trains and the tests of the plugin tune."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from astuner.contract.protocols import TinyModelJob
from astuner_local.tiny.task_model import make_tiny_model
from astuner_local.tiny.task_tokenizer import make_tiny_tokenizer


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
