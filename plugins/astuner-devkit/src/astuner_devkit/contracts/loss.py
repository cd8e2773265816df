"""The contract of losses: trained tokens in, one loss per token out, and a gradient at their log-probabilities."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import SkipTest

from attrs import evolve, frozen

from astuner.contract.protocols import LossTraits, TrainedTokens, read_traits
from astuner_devkit.contracts.base import Contract, self_contained
from astuner_devkit.contracts.shape import assert_method, forbid_errors

if TYPE_CHECKING:
    from torch import Tensor

SAMPLES: Sequence[Sequence[float]] = ((0.0, 0.3, -0.3), (0.05,), (2.0, -0.05, 0.01, -2.0, 0.0), (-0.1, 0.1), (20.0, -20.0))
"""Of each sample the log-ratios log π/π_old of its tokens."""
ADVANTAGES: Mapping[str, Sequence[float]] = {
    "better and worse samples": (1.0, -0.5, -1.0, 0.0, 0.25),
    "the same samples with opposite advantages": (-1.0, 0.5, 1.0, 0.0, -0.25),
}
RELATIVE, ABSOLUTE = 1e-4, 1e-6
"""How far two computations of the same number may be apart, in float32."""


@frozen(eq=False)
class _Computed:
    """The losses [tokens], and the gradient of their sum at the log-probabilities."""

    losses: Tensor
    gradient: Tensor

    def cut(self, part: Any) -> _Computed:
        return _Computed(self.losses[part], self.gradient[part])

    def find_difference(self, other: _Computed) -> str:
        """Return what is not the same; an empty text if all is."""
        for what, one, two in (("losses", self.losses, other.losses), ("gradients", self.gradient, other.gradient)):
            if not one.allclose(two, rtol=RELATIVE, atol=ABSOLUTE):
                return f"the {what} are {_format(one)} and {_format(two)}"
        return ""


class LossContract(Contract):
    """Rules for losses. They need torch and no data: the tokens are made up."""

    kind = "loss"

    @self_contained
    def test_it_is_a_loss(self) -> None:
        """A loss has `compute(tokens)`, a plain method."""
        doc = "It returns the loss of each token."
        assert_method(self.target(), "compute", ["tokens"], blame=self._blame, doc=doc)

    @self_contained
    def test_each_token_has_a_loss(self, tmp_path: Path) -> None:
        """The losses are a tensor [tokens]: also of a single token."""
        loss, whole = self._make_or_skip(tmp_path), _make_tokens(ADVANTAGES["better and worse samples"])
        for tokens in (whole, _take(whole, whole.samples == 1)):
            found, wanted = loss.compute(tokens), tokens.logp.shape
            assert getattr(found, "shape", None) == wanted, (
                f"{self._blame}: {len(tokens.logp)} tokens gave {_format(found)}, of the shape "
                f"{list(getattr(found, 'shape', []))}: return the loss of each token, not their sum or mean"
            )

    @self_contained
    def test_losses_and_gradients_are_finite(self, tmp_path: Path) -> None:
        """Losses and gradients are finite, also for ratios of e^20 and e^-20."""
        for what, tokens, found in self._compute_all(tmp_path):
            for name, values in (("losses", found.losses), ("gradients", found.gradient)):
                assert values.isfinite().all(), (
                    f"{self._blame}: for {what}, log-ratios {_format(tokens.logp - tokens.old)} gave the {name} "
                    f"{_format(values)}: take `tokens.log_ratio()`, which is bounded, and divide by nothing that may be 0"
                )

    @self_contained
    def test_a_step_begins_towards_the_better(self, tmp_path: Path) -> None:
        """Where both policies are equal, the gradient raises no worse sample and lowers no better one, and is not 0 for all."""
        loss = self._make_or_skip(tmp_path)
        for what, advantages in ADVANTAGES.items():
            tokens = _make_tokens(advantages)
            found = self._compute(loss, evolve(tokens, old=tokens.logp)).gradient
            assert (found * tokens.advantages <= ABSOLUTE).all(), (
                f"{self._blame}: for {what}, advantages {_format(tokens.advantages)} gave the gradients {_format(found)}: "
                "a loss falls where a token with a positive advantage becomes likelier; check its sign"
            )
            assert (found != 0).any(), f"{self._blame}: for {what}, all gradients are 0: nothing would be learnt"

    @self_contained
    def test_no_advantage_teaches_nothing(self, tmp_path: Path) -> None:
        """Tokens whose advantage is 0 have no gradient."""
        loss, tokens = self._make_or_skip(tmp_path), _make_tokens([0.0] * len(SAMPLES))
        found = self._compute(loss, tokens).gradient
        assert (found.abs() <= ABSOLUTE).all(), (
            f"{self._blame}: advantages that are all 0 gave the gradients {_format(found)}: multiply by `tokens.advantages`; a "
            "divergence has its own keys, trainer_common.use_kl_loss"
        )

    @self_contained
    def test_samples_do_not_meet(self, tmp_path: Path) -> None:
        """A sample has the same losses and gradients alone as among others: backbones cut mini-batches in different places."""
        loss = self._make_or_skip(tmp_path)
        for what, tokens, together in self._compute_all(tmp_path):
            for one in range(len(SAMPLES)):
                part = tokens.samples == one
                alone = self._compute(loss, _take(tokens, part))
                wrong = together.cut(part).find_difference(alone)
                assert not wrong, (
                    f"{self._blame}: for {what}, among others and alone {wrong} for one sample: take sums and means with "
                    "`tokens.add_up` and `tokens.average`, which are those of a sample"
                )

    @self_contained
    def test_per_token_is_true(self, tmp_path: Path) -> None:
        """Where its traits say `per_token`, each token has the same loss and gradient alone as with the rest of its sample."""
        loss = self._make_or_skip(tmp_path)
        if not read_traits(loss, LossTraits).per_token:
            return
        for what, tokens, together in self._compute_all(tmp_path):
            for place in range(len(tokens.logp)):
                part = slice(place, place + 1)
                wrong = together.cut(part).find_difference(self._compute(loss, _take(tokens, part)))
                assert not wrong, (
                    f"{self._blame}: for {what}, with its sample and alone {wrong} for one token: leave out `per_token=True`, or "
                    "use nothing of other tokens"
                )

    @self_contained
    def test_tokens_stay_as_they_are(self, tmp_path: Path) -> None:
        """The given tensors are left as they are: corrections and metrics are computed of them afterwards."""
        loss = self._make_or_skip(tmp_path)
        before, tokens = (_make_tokens(ADVANTAGES["better and worse samples"]) for _ in range(2))
        self._compute(loss, tokens)
        for name in ("logp", "old", "sampler", "advantages", "samples"):
            one, two = getattr(before, name), getattr(tokens, name)
            assert one.equal(two), (
                f"{self._blame} changed `{name}` from {_format(one)} to {_format(two)}: "
                "work on new tensors (`a * b`, not `a *= b`)"
            )

    @self_contained
    def test_the_same_tokens_give_the_same(self, tmp_path: Path) -> None:
        """The same tokens give the same losses, on repeat, from another one and pickled: it runs where the weights are."""
        loss, again = self._make_or_skip(tmp_path), self._make_or_skip(tmp_path)
        with forbid_errors(f"{self._blame}: pickling it", "hold plain values"):
            sent = pickle.loads(pickle.dumps(loss))
        for what, tokens, _ in self._compute_all(tmp_path):
            first = self._compute(loss, tokens)
            for which, other in (("again", loss), ("by another one", again), ("after pickling", sent)):
                wrong = first.find_difference(self._compute(other, tokens))
                assert not wrong, (
                    f"{self._blame}: for {what}, at first and {which} {wrong}: keep no state and draw nothing at random"
                )

    def _compute_all(self, directory: Path) -> list[tuple[str, TrainedTokens, _Computed]]:
        loss = self._make_or_skip(directory)
        cases = {what: _make_tokens(advantages) for what, advantages in ADVANTAGES.items()}
        return [(what, tokens, self._compute(loss, tokens)) for what, tokens in cases.items()]

    def _compute(self, loss: Any, tokens: TrainedTokens) -> _Computed:
        import torch

        leaf = tokens.logp.clone().requires_grad_()
        losses = loss.compute(evolve(tokens, logp=leaf))
        assert getattr(losses, "requires_grad", False), (
            f"{self._blame}: the losses have no gradient at `tokens.logp`: do not detach it everywhere, and compute with tensors"
        )
        (gradient,) = torch.autograd.grad(losses.sum(), leaf, allow_unused=True)
        assert gradient is not None, f"{self._blame}: the losses have no gradient at `tokens.logp`: compute them of it"
        return _Computed(losses.detach(), gradient)


def _make_tokens(advantages: Sequence[float]) -> TrainedTokens:
    """Return the tokens of `SAMPLES`; skip the rule if torch is missing."""
    try:
        import torch
    except ImportError as error:
        raise SkipTest("it needs torch: pip install torch") from error
    lengths = torch.tensor([len(ratios) for ratios in SAMPLES])
    log_ratio = torch.tensor([ratio for ratios in SAMPLES for ratio in ratios])
    old = -0.1 - 0.2 * torch.arange(len(log_ratio)) % 3
    return TrainedTokens(
        logp=old + log_ratio,
        old=old,
        sampler=old + 0.01,
        advantages=torch.tensor(list(advantages)).repeat_interleave(lengths),
        samples=torch.arange(len(SAMPLES)).repeat_interleave(lengths),
    )


def _take(tokens: TrainedTokens, part: Any) -> TrainedTokens:
    """Return neighbouring tokens, their samples counted from 0."""
    samples = tokens.samples[part]
    taken = {name: getattr(tokens, name)[part] for name in ("logp", "old", "sampler", "advantages")}
    return TrainedTokens(**taken, samples=samples - samples[:1])


def _format(values: Any) -> str:
    return str([float(f"{value:.5g}") for value in values.flatten().tolist()]) if hasattr(values, "tolist") else f"{values!r:.80}"
