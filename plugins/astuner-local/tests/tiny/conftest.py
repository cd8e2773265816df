from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from one_quickstart import one_quickstart
from transformers import AutoModelForCausalLM, AutoTokenizer

from astuner_local.tiny.tokenizer import train_tokenizer


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """A tokenizer of the same make, trained on little."""
    return train_tokenizer(["The answer is", "Use your tools."])


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model, made to the end: the quickstart's, which takes half a minute and is made once for all environments."""
    return one_quickstart(tmp_path_factory) / "model"


@pytest.fixture(scope="session")
def tiny(made: Path) -> tuple[Any, Any]:
    """Model and tokenizer, as any tool loads them."""
    return AutoModelForCausalLM.from_pretrained(made), AutoTokenizer.from_pretrained(made)
