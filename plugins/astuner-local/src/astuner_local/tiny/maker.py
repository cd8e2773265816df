"""From a seed to a model directory that any Hugging Face tool can load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from random import Random

import torch
from transformers.utils import logging

from astuner_local.tiny.demos import TOOL_NAME, make_careless, to_plain_text
from astuner_local.tiny.model import new_model
from astuner_local.tiny.tokenizer import save_tokenizer, train_tokenizer
from astuner_local.tiny.warm_start import warm_start

CORPUS_SIZE = 2000

ATTEMPTS = 3
"""In about one start of ten the model never learns to copy; this many starts make failure unlikely."""

APART = 1_000_003
"""Distance between the seeds of attempts: users number theirs from 0."""


def make_tiny_model(directory: Path, *, seed: int, progress: Callable[[int, int], None] = lambda *_: None) -> None:
    """Make, warm-start and save the model and its tokenizer; the same seed gives the same weights.

    `progress(done, total)` is called after each training step.
    """
    threads = torch.get_num_threads()
    # More threads gain little at this size, lose much on a busy machine, and would make the sums depend on their number.
    torch.set_num_threads(1)
    try:
        tokenizer = train_tokenizer(_corpus())
        before = 0
        for attempt in range(ATTEMPTS):
            model = new_model(tokenizer, seed + attempt * APART)
            done = _Steps(before, progress)
            if warm_start(model, tokenizer, seed + attempt * APART, done):
                break
            before = done.last
    finally:
        torch.set_num_threads(threads)
    with disable_progress_bars():
        model.save_pretrained(directory)
    save_tokenizer(tokenizer, directory)


class _Steps:
    """Counts the steps of an attempt after those of earlier attempts."""

    def __init__(self, before: int, progress: Callable[[int, int], None]) -> None:
        self._before, self._progress = before, progress
        self.last = before

    def __call__(self, done: int, total: int) -> None:
        self.last = self._before + done
        self._progress(self.last, self._before + total)


@contextmanager
def disable_progress_bars() -> Iterator[None]:
    """Keep transformers from drawing its own bar for a file of one megabyte."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers ships it without types
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # as above


def _corpus() -> Iterator[str]:
    """Yield what the tokenizer is trained on: the words of careless, the same for every seed."""
    for conversation in islice(make_careless(Random(0)), CORPUS_SIZE):
        yield from (to_plain_text(message) for message in conversation)
        yield f"system\nTools: {TOOL_NAME}\nuser\nassistant\n"
