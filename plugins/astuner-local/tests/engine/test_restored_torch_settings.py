"""A run changes settings of torch for its whole process; a notebook goes on with those that it had."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from transformers.utils import logging

from astuner_local.engine.torch_settings import restore_torch_settings


def read_settings() -> dict[str, Any]:
    return {
        "threads": torch.get_num_threads(),
        "random": torch.get_rng_state().tolist(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "only warns": torch.is_deterministic_algorithms_warn_only_enabled(),
        "bars": logging.is_progress_bar_enabled(),
    }


def test_settings_are_restored_after_an_error_too():
    logging.enable_progress_bar()
    before = read_settings()
    with suppress(ValueError), restore_torch_settings():
        torch.set_num_threads(before["threads"] + 1)
        torch.use_deterministic_algorithms(not before["deterministic"], warn_only=True)
        torch.manual_seed(torch.initial_seed() + 1)
        logging.disable_progress_bar()
        assert all(read_settings()[name] != before[name] for name in ("threads", "random", "deterministic", "bars"))
        raise ValueError
    assert read_settings() == before
