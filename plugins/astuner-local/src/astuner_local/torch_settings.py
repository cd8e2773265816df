"""Settings of torch and transformers that hold for a whole process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def restore_torch_settings() -> Iterator[None]:
    """Restore threads, determinism, random numbers and progress bars at the end: a notebook or a sweep goes on after a run."""
    import torch
    from transformers.utils import logging

    threads, random = torch.get_num_threads(), torch.get_rng_state()
    deterministic, only_warns = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    shows_bars = logging.is_progress_bar_enabled()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(random)
        torch.use_deterministic_algorithms(deterministic, warn_only=only_warns)
        if shows_bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # transformers ships it without types
