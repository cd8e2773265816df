from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from attrs import frozen

from astuner.contract.protocols import EstimatorTraits, Outcome, Streams
from astuner.episodes.judging.estimators import (
    DrGrpo,
    ReinforcePlusPlus,
    ReinforcePlusPlusBaseline,
    ReinforcePlusPlusEpisode,
    Rloo,
)
from astuner_devkit.contracts import Contract, EstimatorContract, list_rules, run_contract
from astuner_devkit.contracts.estimator import Rewards


class TestGrpo(EstimatorContract):
    component = "astuner.episodes.judging.estimators:Grpo"


class TestDrGrpo(EstimatorContract):
    component = DrGrpo


class TestRloo(EstimatorContract):
    component = Rloo


class TestReinforcePlusPlus(EstimatorContract):
    component = ReinforcePlusPlus


class TestReinforcePlusPlusBaseline(EstimatorContract):
    component = ReinforcePlusPlusBaseline


class TestReinforcePlusPlusEpisode(EstimatorContract):
    component = ReinforcePlusPlusEpisode


class Centred:
    """A good estimator."""

    def advantages(self, groups: Sequence[Rewards]) -> Sequence[Any]:
        return [self.of(rewards) for rewards in groups]

    def of(self, rewards: Rewards) -> Any:
        return rewards - rewards.mean() if rewards.size > 1 else np.zeros_like(rewards)


class TakesOneGroup(Centred):
    def advantages(self) -> Sequence[Any]:  # type: ignore[override]
        return []


class OddAggregation(Centred):
    traits = EstimatorTraits(default_loss_agg_mode="mean")


class OnePerGroup(Centred):
    def of(self, rewards: Rewards) -> Any:
        return rewards[:1]


class FailsOnALoneSibling(Centred):
    def of(self, rewards: Rewards) -> Any:
        if rewards.size < 2:
            raise ValueError("no sibling to compare with")
        return super().of(rewards)


class DividesByNothing(Centred):
    def of(self, rewards: Rewards) -> Any:
        with np.errstate(all="ignore"):
            return super().of(rewards) / (rewards.std() if rewards.size else 1.0)


class KeepsTheReward(Centred):
    def of(self, rewards: Rewards) -> Any:
        return rewards.copy()


class FirstComeFirstServed(Centred):
    def of(self, rewards: Rewards) -> Any:
        return super().of(rewards) - 0.01 * np.arange(rewards.size)


class PrefersTheWorse(Centred):
    def of(self, rewards: Rewards) -> Any:
        return -super().of(rewards)


class InPlace(Centred):
    def of(self, rewards: Rewards) -> Any:
        if rewards.size:
            rewards -= rewards.mean()
        return rewards


class MovingBaseline(Centred):
    baseline = 0.0

    def of(self, rewards: Rewards) -> Any:
        self.baseline += 0.1
        return super().of(rewards) - self.baseline


class Numbered(Centred):
    """Each one that is made differs from the one before."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.number = self.made

    def of(self, rewards: Rewards) -> Any:
        return super().of(rewards) * self.number


class StepBaseline(Centred):
    """Compares all episodes, and does not say so."""

    def advantages(self, groups: Sequence[Rewards]) -> Sequence[Any]:
        everything = np.concatenate([*groups, np.zeros(0)])
        return [rewards - everything.mean() for rewards in groups]


class OnePerEpisode(Centred):
    traits = EstimatorTraits(weighs_tokens=True)

    def token_advantages(self, groups: Sequence[Rewards], returns: Sequence[Sequence[Rewards]]) -> Sequence[Any]:
        return self.advantages(groups)


class Imitates:
    """Gives all the same streams."""

    traits = EstimatorTraits(gives_streams=True, beyond_advantages=True)

    def signal(self, groups: Sequence[Sequence[Outcome]]) -> Sequence[Sequence[Streams]]:
        return [[self.of(outcome) for outcome in siblings] for siblings in groups]

    def of(self, outcome: Outcome) -> Streams:
        return Streams(likelihood=outcome.reward)


class ImitatesInSecret(Imitates):
    traits = EstimatorTraits(gives_streams=True)


class OnePerCall(Imitates):
    def of(self, outcome: Outcome) -> Streams:
        return Streams(advantages=np.zeros(len(outcome.episode.calls)))


class NotFinite(Imitates):
    def of(self, outcome: Outcome) -> Streams:
        return Streams(likelihood=np.nan)


class OneGroupTooFew(Imitates):
    def signal(self, groups: Sequence[Sequence[Outcome]]) -> Sequence[Sequence[Streams]]:
        return super().signal(groups)[1:]


class NoReference(Imitates):
    def of(self, outcome: Outcome) -> Streams:
        return Streams(divergence=1.0, reference="reference")


class CountsInSecret(Imitates):
    seen = 0

    def of(self, outcome: Outcome) -> Streams:
        self.seen += 1
        return Streams(advantages=float(self.seen))


class ForgetsItsCount(CountsInSecret):
    traits = EstimatorTraits(gives_streams=True, keeps_state=True)

    def get_state(self) -> Any:
        return {}

    def set_state(self, state: Any) -> None:
        pass


class Counts(ForgetsItsCount):
    def get_state(self) -> Any:
        return {"seen": self.seen}

    def set_state(self, state: Any) -> None:
        self.seen = state["seen"]


class NoSignal(Imitates):
    signal = None  # type: ignore[assignment]


class BlindToGreedy:
    traits = EstimatorTraits(wants_greedy=True)

    def advantages(self, groups: Sequence[Rewards]) -> Sequence[Rewards]:
        return [np.zeros_like(rewards) for rewards in groups]


BAD = [
    ("test_it_is_an_estimator", NoSignal, "signal"),
    ("test_it_is_an_estimator", BlindToGreedy, "wants_greedy needs gives_streams=True"),
    ("test_streams_are_whole", ImitatesInSecret, "its traits must say beyond_advantages=True"),
    ("test_streams_are_whole", OnePerCall, "gave an array of shape [1] as advantages for 0 trained tokens"),
    ("test_streams_are_whole", NotFinite, "gave a number that is not finite as likelihood"),
    ("test_streams_are_whole", OneGroupTooFew, "must return one Streams per outcome, group by group"),
    ("test_streams_are_whole", NoReference, "named the reference 'reference'; there are: sampler"),
    ("test_a_state_goes_on", CountsInSecret, "write `traits = EstimatorTraits(keeps_state=True, …)`"),
    ("test_a_state_goes_on", ForgetsItsCount, "return all that it remembers"),
    ("test_it_is_an_estimator", TakesOneGroup, "core calls advantages(groups), but its signature differs"),
    ("test_its_loss_aggregation_is_known", OddAggregation, "default_loss_agg_mode is 'mean'; use one of token-mean, "),
    (
        "test_shapes_are_kept",
        OnePerGroup,
        "groups of [4, 3, 1, 0] rewards gave advantages of the shapes [(1,), (1,), (1,), (0,)]",
    ),
    ("test_shapes_are_kept", FailsOnALoneSibling, "ValueError: no sibling to compare with"),
    ("test_advantages_are_finite", DividesByNothing, "rewards [1.0] gave [nan]: add a small number"),
    ("test_equal_rewards_give_no_signal", KeepsTheReward, "rewards that are all 1.0 gave [1.0, "),
    (
        "test_equal_rewards_of_a_group_give_it_no_signal",
        StepBaseline,
        "or write `traits = EstimatorTraits(",
    ),
    ("test_advantages_of_tokens_have_their_shapes", OnePerEpisode, "returns of [[3, 0, 1], [2], []] tokens gave"),
    ("test_equal_siblings_get_the_same", FirstComeFirstServed, "siblings with the reward 0.0 got [-0.5, -0.52]"),
    ("test_a_better_reward_is_no_disadvantage", PrefersTheWorse, "gave [0.5, -0.5, 0.5, -0.5]: prefer the better"),
    ("test_rewards_stay_as_they_are", InPlace, "changed the rewards [1.0] to [0.0]: work on new arrays"),
    ("test_the_same_rewards_give_the_same", MovingBaseline, "keep no state between steps"),
    ("test_the_same_rewards_give_the_same", Numbered, "keep no state between steps"),
]


def contract_of(estimator: type) -> type[EstimatorContract]:
    return type("Bad", (EstimatorContract,), {"component": estimator})


@pytest.mark.parametrize(("rule", "estimator", "words"), BAD)
def test_a_bad_estimator_breaks_its_rule(rule: str, estimator: type, words: str) -> None:
    outcome = next(outcome for outcome in run_contract(contract_of(estimator)) if outcome.rule == rule)
    assert (outcome.status, words in outcome.message) == ("failed", True), outcome


def test_each_rule_has_a_bad_estimator() -> None:
    assert {rule for rule, _, _ in BAD} == set(list_rules(EstimatorContract)) - set(list_rules(Contract))


@pytest.mark.parametrize("estimator", [Centred, Imitates, Counts])
def test_a_good_estimator_keeps_all_rules(estimator: type) -> None:
    assert {"passed"} == {outcome.status for outcome in run_contract(contract_of(estimator))}


def test_all_rules_of_estimators_need_nothing_from_the_author() -> None:
    own = set(list_rules(EstimatorContract)) - set(list_rules(Contract))
    assert own <= set(list_rules(EstimatorContract, only_self_contained=True))


class Configured(Centred):
    @frozen(kw_only=True)
    class Options:
        baseline: float
        """What is taken off."""

    def __init__(self, options: Options) -> None:
        self.options = options


def test_an_estimator_that_needs_options_is_not_blamed_where_nobody_gave_any() -> None:
    outcome = run_contract(contract_of(Configured), only_self_contained=True)[-1]
    assert (outcome.status, "it needs options: set `options`" in outcome.message) == ("skipped", True)


def test_options_that_do_not_fit_are_the_authors_fault() -> None:
    contract = type("Bad", (EstimatorContract,), {"component": Configured, "options": {"base_line": 1.0}})
    outcome = run_contract(contract)[-1]
    assert (outcome.status, "estimator.base_line" in outcome.message) == ("failed", True), outcome
