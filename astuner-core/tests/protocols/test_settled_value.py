"""What `rollout.max_num_seqs: auto` becomes."""

from __future__ import annotations

import pytest

from astuner.contract.protocols.engine import settle_sequences
from astuner.settings.config.rollout import Rollout


@pytest.mark.parametrize(
    ("engines", "gpu", "workers", "expected"),
    [(1, False, 128, 10), (1, True, 128, 128), (3, True, 128, 43), (1, True, 2048, 256), (8, True, 4, 1)],
)
def test_episodes_are_shared_out_among_the_engines(engines: int, gpu: bool, workers: int, expected: int) -> None:
    settled = settle_sequences(Rollout(max_env_worker=workers), engines=engines, gpu=gpu)
    assert (settled.value, settled.cost) == (expected, None)


@pytest.mark.parametrize(("value", "gpu", "costs"), [(10, True, True), (64, True, False), (10, False, False), (16, True, True)])
def test_few_sequences_on_a_gpu_are_reported(value: int, gpu: bool, costs: bool) -> None:
    settled = settle_sequences(Rollout(max_num_seqs=value, max_env_worker=64), engines=2, gpu=gpu)
    assert settled.value == value
    assert (settled.cost is not None) is costs


@pytest.mark.parametrize("value", [0, -3, "many"])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="'auto' or at least 1"):
        Rollout(max_num_seqs=value)  # type: ignore[arg-type]  # what a YAML may hold
