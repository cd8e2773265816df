"""Losses, corrections and estimators are those of verl: the same values and gradients on ragged rows."""

from __future__ import annotations

from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, cast, get_args

import numpy as np
import pytest
from attrs import evolve
from made_up_outcomes import play
from ragged_tokens import LENGTHS, make_tokens

from astuner.contract.protocols import PolicyLoss, TrainedTokens
from astuner.contract.schema import Verdict
from astuner.runs.training import Correction, PpoClip
from astuner.settings.config.trainer import RejectionMeasure
from astuner_algorithms.covariance import KlCov
from astuner_algorithms.estimators import Opo, PassAtK
from astuner_algorithms.losses import Cispo, Dppo, Gmpo, Gspo, Sapo
from astuner_algorithms.streams import Gdpo, Remax

pytestmark = pytest.mark.skipif(find_spec("verl") is None, reason="verl is not installed")

LOW, HIGH, C = 0.15, 0.25, 3.0
BOUNDS = {"clip_ratio_low": LOW, "clip_ratio_high": HIGH}
BOUNDS_OF_LOGS = {"clip_log_ratio_low": LOW, "clip_log_ratio_high": HIGH}
BOUNDS_OF_DIVERGENCES = {"clip_divergence_low": LOW, "clip_divergence_high": HIGH, "clip_ratio_c": C}
TOKENS, SAMPLES = "token-mean", "seq-mean-token-mean"
VERL: dict[str, tuple[PolicyLoss, str]] = {
    "vanilla": (PpoClip(**BOUNDS, clip_ratio_c=C), TOKENS),
    "gspo": (Gspo(Gspo.Options(**BOUNDS)), SAMPLES),
    "geo_mean": (Gmpo(Gmpo.Options(**BOUNDS_OF_LOGS)), SAMPLES),
    "cispo": (Cispo(Cispo.Options(**BOUNDS)), TOKENS),
    "sapo": (Sapo(), SAMPLES),
    "dppo_tv": (Dppo(Dppo.Options(**BOUNDS_OF_DIVERGENCES)), TOKENS),
    "dppo_kl": (Dppo(Dppo.Options(**BOUNDS_OF_DIVERGENCES, divergence="kl")), TOKENS),
}
"""By the names of verl's registry."""


def compute_ours(loss: PolicyLoss, tokens: TrainedTokens, aggregation: str) -> tuple[float, Any]:
    """Return the loss of all samples, and its gradient."""
    import torch

    ones = torch.ones_like(tokens.old)
    shares = ones / len(ones) if aggregation == TOKENS else ones / tokens.add_up(ones) / len(LENGTHS)
    found = (loss.compute(tokens) * shares).sum()
    return found.item(), torch.autograd.grad(found, tokens.logp)[0]


def pad(tokens: TrainedTokens) -> tuple[Any, Any, Any, Any, Any]:
    """Return log-probabilities now, before, advantages and the mask of trained tokens as rows, and the flat leaf of the first."""
    import torch

    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    leaf = tokens.logp.detach().clone().requires_grad_()
    # What stands in the padding does not count.
    filled = [torch.full(mask.shape, -0.7, dtype=leaf.dtype).masked_scatter(mask, one) for one in (leaf, tokens.old)]
    advantages = torch.zeros(mask.shape, dtype=leaf.dtype).masked_scatter(mask, tokens.advantages)
    return *filled, advantages, mask, leaf


def assert_same(ours: tuple[float, Any], theirs: Any, leaf: Any) -> None:
    import torch

    (gradient,) = torch.autograd.grad(theirs, leaf)
    assert gradient.abs().max() > 0
    assert ours[0] == pytest.approx(theirs.item(), rel=1e-6, abs=1e-9)
    torch.testing.assert_close(ours[1], gradient, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spread", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("name", VERL)
def test_the_loss_is_that_of_verl(name: str, spread: float, seed: int) -> None:
    from verl.trainer.ppo.core_algos import get_policy_loss_fn
    from verl.workers.config import ActorConfig

    loss, aggregation = VERL[name]
    tokens = make_tokens(seed, spread)
    logp, old, advantages, mask, leaf = pad(tokens)
    config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio_c=C, **BOUNDS)
    theirs, _ = get_policy_loss_fn(name)(
        old_log_prob=old,
        log_prob=logp,
        advantages=advantages,
        response_mask=mask.double(),
        loss_agg_mode=aggregation,
        config=config,
    )
    assert_same(compute_ours(loss, tokens, aggregation), theirs, leaf)


def sampled_tokens(seed: int, spread: float) -> tuple[TrainedTokens, Any, Any]:
    """Return tokens that another policy has sampled, the log-ratios of the two as rows, and the mask of trained tokens."""
    import torch

    tokens = make_tokens(seed, spread)
    tokens = evolve(tokens, sampler=tokens.logp.detach())
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return tokens, torch.zeros(mask.shape, dtype=torch.float64).masked_scatter(mask, tokens.old - tokens.sampler), mask


@pytest.mark.parametrize("spread", [0.05, 0.5])
@pytest.mark.parametrize("lower", [None, 0.8])
@pytest.mark.parametrize("over", ["token", "sequence"])
def test_importance_weights_are_those_of_verl(over: Any, lower: float | None, spread: float) -> None:
    import torch
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights

    tokens, log_ratio, mask = sampled_tokens(1, spread)
    threshold = 1.2 if lower is None else f"{lower}_1.2"
    expected, _ = compute_rollout_correction_weights(log_ratio, mask.double(), over, threshold)
    found, _ = Correction(rollout_is=over, rollout_is_threshold=1.2, rollout_is_lower=lower).compute(tokens)
    torch.testing.assert_close(found, expected[mask])


@pytest.mark.parametrize("measure", get_args(RejectionMeasure))
def test_what_is_rejected_is_what_verl_rejects(measure: str) -> None:
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_rejection_mask

    kept = set()
    for seed, threshold in ((1, 1.02), (2, 1.2), (3, 2.0)):
        tokens, log_ratio, mask = sampled_tokens(seed, 0.5)
        expected, _ = compute_rollout_rejection_mask(log_ratio, mask.double(), measure, threshold)
        found, _ = Correction(rollout_rs=measure, rollout_rs_threshold=threshold).compute(tokens)
        assert found.tolist() == expected[mask].tolist()
        kept |= set(found.tolist())
    assert 1.0 in kept


@pytest.mark.parametrize("norm_by_std", [True, False])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["opo", "grpo_passk"])
def test_advantages_are_those_of_verl(name: str, seed: int, norm_by_std: bool) -> None:
    import torch
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    random = np.random.default_rng(seed)
    sizes = [4, 2, 7]
    lengths = [random.integers(1, 9, size) for size in sizes]
    # Few different rewards, so that some agree.
    rewards = [random.integers(0, 4, size) / 2.0 for size in sizes]
    mask = torch.arange(9) < torch.tensor(np.concatenate(lengths))[:, None]
    scores = torch.zeros(mask.shape, dtype=torch.float64)
    scores[:, 0] = torch.tensor(np.concatenate(rewards))
    expected, _ = get_adv_estimator_fn(name)(
        token_level_rewards=scores,
        response_mask=mask,
        index=np.repeat(np.arange(len(sizes)), sizes),
        config={"norm_adv_by_std_in_grpo": norm_by_std},
    )
    if name == "opo":
        returns = [[np.full(n, r) for n, r in zip(*group, strict=True)] for group in zip(lengths, rewards, strict=True)]
        found = np.concatenate([tokens for group in Opo().token_advantages(rewards, returns) for tokens in group])
    else:
        found = np.repeat(np.concatenate(PassAtK(norm_by_std).advantages(rewards)), np.concatenate(lengths))
    assert found == pytest.approx(expected[mask].numpy(), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_greedy_baseline_is_that_of_verl(seed: int) -> None:
    import torch
    from verl.trainer.ppo.core_algos import compute_remax_outcome_advantage

    draws = np.random.default_rng(seed)
    # Penalties on each token, as of the divergence in the reward; verl has the reward itself at the last token.
    lengths, penalties = draws.integers(1, 9, 12), draws.normal(0, 0.1, (12, 9))
    rewards, baselines = draws.integers(0, 4, 12) / 2.0, draws.integers(0, 4, 12) / 2.0
    mask = torch.arange(9) < torch.tensor(lengths)[:, None]
    scores = torch.tensor(-penalties) * mask
    scores[torch.arange(12), torch.tensor(lengths) - 1] += torch.tensor(rewards)
    expected, _ = compute_remax_outcome_advantage(scores, torch.tensor(baselines), mask.double())
    groups = [
        [evolve(play(reward), calls=np.zeros(n, np.int64), greedy=base, returns=reward - np.cumsum(lost[:n][::-1])[::-1])]
        for n, reward, base, lost in zip(lengths, rewards, baselines, penalties, strict=True)
    ]
    found = np.concatenate([np.asarray(one.advantages) for own in Remax().signal(groups) for one in own])
    assert found == pytest.approx(expected[mask].numpy(), rel=1e-6, abs=1e-9)


def test_components_are_normalised_as_in_verl() -> None:
    import torch
    from verl.trainer.ppo import core_algos

    draws = np.random.default_rng(3)
    groups = [
        [
            play(0.0, components={"a": float(draws.normal()), "b": float(draws.integers(0, 2))}, tokens=int(draws.integers(1, 5)))
            for _ in range(4)
        ]
        for _ in range(3)
    ]
    ours = [np.broadcast_to(one.advantages, own.tokens) for mine, both in zip(Gdpo().signal(groups), groups, strict=True)
            for one, own in zip(mine, both, strict=True)]  # fmt: skip
    flat = [one for siblings in groups for one in siblings]
    mask = torch.arange(4) < torch.tensor([one.tokens for one in flat])[:, None]
    components = [cast("Verdict", one.episode.verdict).components for one in flat]
    config = SimpleNamespace(get={"gdpo_reward_keys": ["a", "b"]}.get)
    theirs, _ = core_algos.compute_gdpo_outcome_advantage(
        torch.zeros(mask.shape),
        mask.float(),
        np.repeat(np.arange(3), 4),
        config=config,
        non_tensor_batch={name: np.array([one[name] for one in components]) for name in ("a", "b")},
        batch={"prompts": torch.zeros(12, 1), "attention_mask": torch.cat([torch.ones(12, 1), mask], 1).long()},
    )
    assert np.concatenate(ours) == pytest.approx(theirs[mask].numpy(), rel=1e-4, abs=1e-5)


def test_the_tokens_of_the_highest_covariance_are_those_of_verl() -> None:
    import torch
    from omegaconf import OmegaConf
    from verl.trainer.ppo import core_algos

    draws = np.random.default_rng(5)
    groups = [
        [evolve(play(float(draws.integers(0, 2)), tokens=6), logprobs=draws.normal(-2, 1, 6)) for _ in range(4)] for _ in range(3)
    ]
    held = [np.asarray(one.divergence) for siblings in KlCov(KlCov.Options(share=0.1)).signal(groups) for one in siblings]
    flat = [one for siblings in groups for one in siblings]
    advantages = [one.advantages for siblings in KlCov().signal(groups) for one in siblings]
    logp = torch.tensor(np.stack([one.logprobs for one in flat]))
    # Where the ratio is not 1, a token's divergence adds to its loss.
    old = logp - 0.1
    config = OmegaConf.create({"policy_loss": {"kl_cov_ratio": 0.1, "ppo_kl_coef": 1.0}, "global_batch_info": {}})
    weights = torch.tensor(np.stack(advantages))
    losses = []
    for coefficient in (1.0, 0.0):
        config.policy_loss.ppo_kl_coef = coefficient
        leaf = logp.clone().requires_grad_()
        found = core_algos.get_policy_loss_fn("kl_cov")(
            old_log_prob=old, log_prob=leaf, advantages=weights, response_mask=torch.ones_like(logp), config=config
        )
        losses.append(torch.autograd.grad(found[0], leaf)[0])
    theirs = (losses[0] - losses[1]).abs() > 1e-12
    assert theirs.numpy().tolist() == (np.stack(held) > 0).tolist()
