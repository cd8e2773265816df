"""A draw that is thrown away is undone, and vLLM's own way of doing so is not reached."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")


def runner() -> Any:
    from astuner_vllm.seeded_draws import undo_discarded_draws

    class Runner:
        """As vLLM's: a step samples a row each, then looks at the rows whose sample does not count."""

        def __init__(self) -> None:
            self.input_batch = SimpleNamespace(generators={row: torch.Generator().manual_seed(row) for row in range(2)})
            self.discard_request_mask = SimpleNamespace(np=[False, False])

        def _sample(self) -> list[int]:
            return [int(torch.randint(1000, (1,), generator=made)) for _, made in sorted(self.input_batch.generators.items())]

        def _bookkeeping_sync(self) -> None:
            for row, generator in self.input_batch.generators.items():
                if self.discard_request_mask.np[row]:
                    generator.set_offset(generator.get_offset() - 4)

        def step(self, discarded: Sequence[bool] = (False, False)) -> list[int]:
            self.discard_request_mask.np = list(discarded)
            drawn = self._sample()
            self._bookkeeping_sync()
            return drawn

    undo_discarded_draws(Runner)
    undo_discarded_draws(Runner)
    return Runner()


def test_a_discarded_draw_is_drawn_again() -> None:
    one = runner()
    first = one.step([True, False])
    second = one.step()
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_rows_keep_their_generators() -> None:
    one = runner()
    before = dict(one.input_batch.generators)
    one.step([True, True])
    assert before == one.input_batch.generators


def test_draws_that_count_are_those_of_a_run_without_discarded_ones() -> None:
    one, other = runner(), runner()
    one.step([True, True])
    assert other.step() == one.step()
    assert other.step() == one.step()
