"""The corrections of core are verl's own, at each token of rows of any length."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astuner.contract.protocols import TrainedTokens
from astuner.runs.training import Correction
from astuner.settings.config.trainer import RejectionMeasure

pytestmark = pytest.mark.skipif(find_spec("verl") is None, reason="verl is not installed")


def make_rows(seed: int) -> tuple[Any, Any]:
    """Return log-ratios and the mask of rows [rows, longest], a few of them far off; each row has a trained token."""
    import torch

    random = np.random.default_rng(seed)
    mask = random.random((int(random.integers(1, 8)), int(random.integers(1, 12)))) < 0.6
    mask[:, random.integers(mask.shape[1])] = True
    scale = random.choice([0.05, 0.5, 15.0], size=mask.shape, p=[0.6, 0.35, 0.05])
    log_ratio = random.normal(0, scale)
    log_ratio[0] = 0  # verl's metrics divide by the sum of the weights
    return torch.tensor(log_ratio, dtype=torch.float64), torch.tensor(mask)


def compute(correction: Correction, log_ratio: Any, mask: Any) -> tuple[Any, dict[str, Any]]:
    """Return our factors of the trained tokens, and what is measured."""
    zeros = log_ratio[mask] * 0
    samples = mask.nonzero()[:, 0]
    return correction.compute(TrainedTokens(logp=zeros, old=log_ratio[mask], sampler=zeros, advantages=zeros, samples=samples))


@given(st.integers(0, 10_000), st.sampled_from(["token", "sequence"]), st.sampled_from([None, 0.5]))
@settings(max_examples=60, deadline=None)
def test_weights_are_those_of_verl(seed: int, level: Any, lower: float | None) -> None:
    import torch
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights

    log_ratio, mask = make_rows(seed)
    spec: Any = 1.5 if lower is None else f"{lower}_1.5"
    weights, metrics = compute_rollout_correction_weights(log_ratio, mask.double(), level, spec)
    correction = Correction(rollout_is=level, rollout_is_threshold=1.5, rollout_is_lower=lower)
    found, measured = compute(correction, log_ratio, mask)
    torch.testing.assert_close(found, weights[mask])
    if lower is not None:
        assert float(measured["correction/bounded"].double().mean()) == pytest.approx(metrics["rollout_is_oob_ratio"])


@pytest.mark.parametrize("measure", get_args(RejectionMeasure))
@given(seed=st.integers(0, 10_000), threshold=st.sampled_from([0.01, 0.3, 1.5]), lower=st.sampled_from([None, 0.7]))
@settings(max_examples=40, deadline=None)
def test_rejected_is_what_verl_rejects(measure: Any, seed: int, threshold: float, lower: float | None) -> None:
    import torch
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_rejection_mask

    log_ratio, mask = make_rows(seed)
    if measure.endswith("k1"):
        threshold += 1
        spec: Any = str(threshold) if lower is None else f"{lower}_{threshold}"
    else:
        spec, lower = threshold, None
    kept, metrics = compute_rollout_rejection_mask(log_ratio, mask.double(), measure, spec)
    correction = Correction(rollout_rs=measure, rollout_rs_threshold=threshold, rollout_rs_lower=lower)
    found, measured = compute(correction, log_ratio, mask)
    torch.testing.assert_close(found.double(), kept[mask])
    assert float(measured["correction/rejected"].double().mean()) == pytest.approx(
        metrics["rollout_rs_masked_fraction"], abs=1e-6
    )


def test_every_measure_of_verl_is_one_of_ours() -> None:
    from verl.trainer.ppo.rollout_corr_helper import SUPPORTED_ROLLOUT_RS_OPTIONS

    assert set(get_args(RejectionMeasure)) == SUPPORTED_ROLLOUT_RS_OPTIONS
