from __future__ import annotations

import sys
from typing import Any

import pytest
from attrs import frozen

from astuner.contract.protocols import LossTraits, TrainedTokens
from astuner.runs.training.losses import PpoClip
from astuner_devkit.contracts import Contract, LossContract, list_rules, run_contract

torch: Any = pytest.importorskip("torch")


class TestPpoClip(LossContract):
    component = PpoClip


class Weighted:
    """A good loss, token by token."""

    traits = LossTraits(per_token=True)

    def compute(self, tokens: TrainedTokens) -> Any:
        return -tokens.advantages * tokens.log_ratio().exp()


class OfSamples:
    """A good loss of samples."""

    def compute(self, tokens: TrainedTokens) -> Any:
        return -tokens.advantages * tokens.average(tokens.log_ratio()).exp()


class WithoutArguments(Weighted):
    def compute(self) -> Any:  # type: ignore[override]
        return None


class Summed(Weighted):
    def compute(self, tokens: TrainedTokens) -> Any:
        return super().compute(tokens).sum()


class Unbounded(Weighted):
    def compute(self, tokens: TrainedTokens) -> Any:
        return -tokens.advantages * (8 * (tokens.logp - tokens.old)).exp()


class DividesByTheAdvantage(Weighted):
    def compute(self, tokens: TrainedTokens) -> Any:
        return super().compute(tokens) * (tokens.advantages / tokens.advantages)


class Upwards(Weighted):
    def compute(self, tokens: TrainedTokens) -> Any:
        return -super().compute(tokens)


class Detached(Weighted):
    def compute(self, tokens: TrainedTokens) -> Any:
        return super().compute(tokens).detach()


class OfOthers(Weighted):
    """Its gradient is at another tensor."""

    def compute(self, tokens: TrainedTokens) -> Any:
        return tokens.advantages.clone().requires_grad_()


class Stuck(Weighted):
    def compute(self, tokens: TrainedTokens) -> Any:
        return super().compute(tokens) * 0


class Likelihood(Weighted):
    def compute(self, tokens: TrainedTokens) -> Any:
        return super().compute(tokens) - 0.1 * tokens.logp


class MeanOfAll(OfSamples):
    def compute(self, tokens: TrainedTokens) -> Any:
        return -(tokens.advantages - tokens.advantages.mean()) * tokens.log_ratio().exp()


class CallsItselfPerToken(OfSamples):
    traits = LossTraits(per_token=True)


class InPlace(Weighted):
    def compute(self, tokens: TrainedTokens) -> Any:
        tokens.advantages.mul_(-1)
        return tokens.advantages * tokens.log_ratio().exp()


class Counting(Weighted):
    calls = 0

    def compute(self, tokens: TrainedTokens) -> Any:
        self.calls += 1
        return super().compute(tokens) * self.calls


class Numbered(Weighted):
    """Each one that is made differs from the one before."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.number = self.made

    def compute(self, tokens: TrainedTokens) -> Any:
        return super().compute(tokens) * self.number


class Forgetful(Weighted):
    """Loses its factor on its way to another process."""

    def __init__(self) -> None:
        self.factor = 2.0

    def __getstate__(self) -> dict[str, float]:
        return {"factor": 1.0}

    def compute(self, tokens: TrainedTokens) -> Any:
        return super().compute(tokens) * self.factor


class Unpicklable(Weighted):
    def __init__(self) -> None:
        self.weigh = lambda ratio: ratio


BAD = [
    ("test_it_is_a_loss", WithoutArguments, "core calls compute(tokens), but its signature differs"),
    ("test_each_token_has_a_loss", Summed, "of the shape []: return the loss of each token, not their sum or mean"),
    ("test_losses_and_gradients_are_finite", Unbounded, "gave the losses [-1.0, "),
    ("test_losses_and_gradients_are_finite", DividesByTheAdvantage, "divide by nothing that may be 0"),
    ("test_a_step_begins_towards_the_better", Upwards, "check its sign"),
    ("test_a_step_begins_towards_the_better", Detached, "the losses have no gradient at `tokens.logp`: do not detach it"),
    ("test_a_step_begins_towards_the_better", OfOthers, "the losses have no gradient at `tokens.logp`: compute them of it"),
    ("test_a_step_begins_towards_the_better", Stuck, "all gradients are 0: nothing would be learnt"),
    ("test_no_advantage_teaches_nothing", Likelihood, "gave the gradients [-0.1, -0.1, "),
    ("test_samples_do_not_meet", MeanOfAll, "for better and worse samples, among others and alone the losses are"),
    ("test_per_token_is_true", CallsItselfPerToken, "leave out `per_token=True`"),
    ("test_tokens_stay_as_they_are", InPlace, "changed `advantages` from [1.0, 1.0, 1.0, "),
    ("test_the_same_tokens_give_the_same", Counting, "again the losses are"),
    ("test_the_same_tokens_give_the_same", Numbered, "by another one the losses are"),
    ("test_the_same_tokens_give_the_same", Forgetful, "after pickling the losses are"),
    ("test_the_same_tokens_give_the_same", Unpicklable, "pickling it raised"),
]


def contract_of(loss: type) -> type[LossContract]:
    return type("Bad", (LossContract,), {"component": loss})


@pytest.mark.parametrize(("rule", "loss", "words"), BAD)
def test_a_bad_loss_breaks_its_rule(rule: str, loss: type, words: str) -> None:
    outcome = next(outcome for outcome in run_contract(contract_of(loss)) if outcome.rule == rule)
    assert (outcome.status, words in outcome.message) == ("failed", True), outcome


def test_each_rule_has_a_bad_loss() -> None:
    assert {rule for rule, _, _ in BAD} == set(list_rules(LossContract)) - set(list_rules(Contract))


@pytest.mark.parametrize("loss", [Weighted, OfSamples])
def test_a_good_loss_keeps_all_rules(loss: type) -> None:
    assert {"passed"} == {outcome.status for outcome in run_contract(contract_of(loss))}


def test_all_rules_of_losses_need_nothing_from_the_author() -> None:
    own = set(list_rules(LossContract)) - set(list_rules(Contract))
    assert own <= set(list_rules(LossContract, only_self_contained=True))


def test_without_torch_the_rules_that_need_it_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    outcomes = {outcome.rule: outcome for outcome in run_contract(contract_of(Weighted))}
    assert outcomes["test_it_is_a_loss"].status == "passed"
    skipped = outcomes["test_per_token_is_true"]
    assert (skipped.status, skipped.message) == ("skipped", "it needs torch: pip install torch")
    assert "failed" not in {outcome.status for outcome in outcomes.values()}


class Configured(Weighted):
    @frozen(kw_only=True)
    class Options:
        bound: float
        """The largest ratio."""

    def __init__(self, options: Options) -> None:
        self.options = options


def test_a_loss_that_needs_options_is_not_blamed_where_nobody_gave_any() -> None:
    outcome = run_contract(contract_of(Configured), only_self_contained=True)[-1]
    assert (outcome.status, "it needs options: set `options`" in outcome.message) == ("skipped", True)
