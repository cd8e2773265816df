"""Seeded draws of vLLM on a CPU: undoes discarded ones. Runs in vLLM's workers.

A prompt that is read in several pieces samples after each of them, and only the last sample counts. For a request with a seed,
vLLM 0.32 moves the generator back by the draw's offset, and generators of a CPU have none: it would end the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def undo_discarded_draws(runner: type[Any]) -> None:
    """Make a model runner reset generators by their state instead of their offset. May be called again.

    `runner` is a class of vLLM's model runner with `_sample` and `_bookkeeping_sync`, which follow each other in a step.
    """
    if getattr(runner, "undoes_draws", False):
        return
    sample, bookkeeping = runner._sample, runner._bookkeeping_sync

    def remember_and_sample(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.draws_to_undo = {row: (generator, generator.get_state()) for row, generator in _find_discarded_rows(self)}
        return sample(self, *args, **kwargs)

    def undo_and_keep_books(self: Any, *args: Any, **kwargs: Any) -> Any:
        generators = self.input_batch.generators
        for row, (generator, state) in self.draws_to_undo.items():
            generator.set_state(state)
            del generators[row]
        try:
            return bookkeeping(self, *args, **kwargs)
        finally:
            generators |= {row: generator for row, (generator, _) in self.draws_to_undo.items()}

    runner._sample, runner._bookkeeping_sync, runner.undoes_draws = remember_and_sample, undo_and_keep_books, True


def _find_discarded_rows(runner: Any) -> Iterator[tuple[int, torch.Generator]]:
    """Yield the rows, and their generators, whose sample of this step does not count."""
    discarded = runner.discard_request_mask.np
    for row, generator in runner.input_batch.generators.items():
        if discarded[row]:
            yield row, generator
