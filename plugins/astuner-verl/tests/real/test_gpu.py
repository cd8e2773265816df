"""The same on a GPU."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from astuner.shared.processes.gpus import gpu_count

from .conftest import succeeded

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(gpu_count() == 0, reason="there is no GPU")]


@pytest.mark.parametrize("engine", ["transformers", "vllm"])
def test_a_model_is_trained_on_one_gpu(project: Any, engine: str) -> None:
    if engine == "vllm" and find_spec("vllm") is None:
        pytest.skip("vLLM is not installed")
    succeeded(project.train(steps=3, rollout__name=engine, trainer_common__n_gpus_per_node=1, trainer_common__save_freq=3))
    rows = project.metrics
    assert [row["step"] for row in rows] == [1, 2, 3]
    # bfloat16: engine and trainer round differently, and no more than that.
    assert all(row["mismatch/exp_abs_mean"] < 1.1 for row in rows)
