"""The same on GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from astuner.shared.processes.gpus import gpu_count

from .conftest import succeeded

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(gpu_count() == 0, reason="there is no GPU")]


def test_explorer_and_trainer_share_one_gpu(project: Any) -> None:
    project.native("{mode: colocate}")
    succeeded(project.train(steps=3, trainer_common__n_gpus_per_node=1, trainer_common__save_freq=3))
    check(project)


@pytest.mark.skipif(gpu_count() < 2, reason="there is one GPU")
def test_explorer_and_trainer_have_a_gpu_each(project: Any) -> None:
    succeeded(project.train(steps=3, trainer_common__n_gpus_per_node=2, trainer_common__save_freq=3))
    check(project)


def check(project: Any) -> None:
    rows = project.metrics
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert all(row["staleness/max"] == 0 for row in rows)
    # bfloat16: engine and trainer round differently, and no more than that.
    assert all(row["mismatch/exp_abs_mean"] < 1.1 for row in rows)
