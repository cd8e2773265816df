"""The contract of advantage estimators: rewards of siblings in, as many advantages out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from astuner.contract.errors import PluginError
from astuner.contract.protocols import EstimatorTraits, read_traits
from astuner.contract.schema import GREEDY, Group
from astuner.episodes.judging.advantages import ROUNDED, compute_advantages
from astuner.settings.config.trainer import LossAggregation
from astuner_devkit.contracts.base import Contract, self_contained
from astuner_devkit.contracts.shape import assert_method
from astuner_devkit.episodes import episode, group

Rewards = NDArray[np.float64]

STEPS: Sequence[Sequence[Sequence[float]]] = (
    [],
    [[1.0]],
    [[]],
    [[0.0, 1.0, 0.0, 1.0], [0.25, 0.5, -1.0], [2.0], []],
    [[1.0, 1.0, 1.0], [0.1, 0.1, 0.1, 0.1]],
    [[0.0, 1e-9], [1e6, -1e6, 3.5], [-2.0, -1.0, -2.0]],
    [[0.3, 0.1, 0.2, 0.2, 0.9, -0.4, 0.0, 1.0]],
)
"""Steps of training: the rewards of groups of siblings. An agent without rewarded episodes makes an empty group."""

NOTHING = 1e-6
"""An advantage up to this size is a rounding error."""


class EstimatorContract(Contract):
    """Rules for estimators. They need no data: the rewards are made up."""

    kind = "estimator"

    @self_contained
    def test_it_is_an_estimator(self) -> None:
        """An estimator has `advantages(groups)`, a plain method; with `gives_streams` in its traits `signal(groups)`."""
        name, doc = "advantages", "It returns one array of advantages per array of rewards."
        traits = read_traits(self.target(), EstimatorTraits)
        assert traits.gives_streams or not traits.wants_greedy, f"{self._blame}: wants_greedy needs gives_streams=True"
        if traits.gives_streams:
            name, doc = "signal", "It returns one Streams per Outcome, group by group."
        assert_method(self.target(), name, ["groups"], blame=self._blame, doc=doc)

    @self_contained
    def test_its_loss_aggregation_is_known(self) -> None:
        """`default_loss_agg_mode` of its traits is one of the ways in which token losses become one number."""
        mode = read_traits(self.target(), EstimatorTraits).default_loss_agg_mode
        known = get_args(LossAggregation)
        assert mode in known, f"{self._blame}: default_loss_agg_mode is {mode!r}; use one of {', '.join(known)}"

    @self_contained
    def test_shapes_are_kept(self, tmp_path: Path) -> None:
        """There is one advantage per reward, group by group: also for a single sibling, an empty group and no group."""
        for step in STEPS:
            found = self._advantages(tmp_path, step)
            assert [len(group) for group in step] == [group.size for group in found], (
                f"{self._blame}: groups of {[len(group) for group in step]} rewards gave advantages of the shapes "
                f"{[group.shape for group in found]}: return one 1-D array per group, of its length"
            )

    @self_contained
    def test_advantages_are_finite(self, tmp_path: Path) -> None:
        """Finite rewards give finite advantages, also where siblings do not differ: nothing is divided by 0."""
        for rewards, advantages in self._groups(tmp_path):
            assert np.isfinite(advantages).all(), (
                f"{self._blame}: rewards {list(rewards)} gave {advantages.tolist()}: add a small number to what it divides by, "
                "and give a single sibling 0"
            )

    @self_contained
    def test_equal_rewards_give_no_signal(self, tmp_path: Path) -> None:
        """When all rewards of a step are the same, every advantage is 0: there is nothing to prefer."""
        for reward in (0.0, 1.0, -0.5, 0.1):
            step = [[reward] * 4, [reward] * 3]
            found = np.concatenate(self._advantages(tmp_path, step))
            assert np.abs(found).max() <= ROUNDED, (
                f"{self._blame}: rewards that are all {reward} gave {found.tolist()}: compare with their mean"
            )

    @self_contained
    def test_equal_rewards_of_a_group_give_it_no_signal(self, tmp_path: Path) -> None:
        """Unless its traits say `group_relative=False`, a group whose rewards are the same gets 0, whatever other groups got."""
        traits = read_traits(self.target(), EstimatorTraits)
        if traits.group_relative and not traits.gives_streams:
            same = self._advantages(tmp_path, [[0.1] * 3, [0.0, 1.0]])[0]
            assert np.abs(same).max() <= ROUNDED, (
                f"{self._blame}: rewards that are all 0.1 gave {same.tolist()} next to a group with others: compare siblings, "
                "or write `traits = EstimatorTraits(group_relative=False)` if all episodes of a step are compared"
            )

    @self_contained
    def test_advantages_of_tokens_have_their_shapes(self, tmp_path: Path) -> None:
        """With `weighs_tokens` in its traits, there is one finite advantage per token, also for siblings without tokens."""
        weighing = self._make_or_skip(tmp_path)
        if not read_traits(weighing, EstimatorTraits).weighs_tokens:
            return
        lengths = [[3, 0, 1], [2], []]
        rewards = [np.linspace(0.0, 1.0, len(group)) for group in lengths]
        returns = [[np.full(n, r) for n, r in zip(*both, strict=True)] for both in zip(lengths, rewards, strict=True)]
        found = [[np.asarray(tokens) for tokens in group] for group in weighing.token_advantages(rewards, returns)]
        assert [[tokens.shape for tokens in group] for group in found] == [[(n,) for n in group] for group in lengths], (
            f"{self._blame}: returns of {lengths} tokens gave advantages of the shapes "
            f"{[[tokens.shape for tokens in group] for group in found]}"
        )
        assert all(np.isfinite(tokens).all() for group in found for tokens in group), f"{self._blame} gave {found}"

    @self_contained
    def test_equal_siblings_get_the_same(self, tmp_path: Path) -> None:
        """Siblings with the same reward get the same advantage, whatever their place in the group."""
        for rewards, advantages in self._groups(tmp_path):
            for reward in set(rewards):
                same = advantages[np.array(rewards) == reward]
                assert np.allclose(same, same[0], rtol=1e-9, atol=NOTHING), (
                    f"{self._blame}: in {list(rewards)}, siblings with the reward {reward} got {same.tolist()}"
                )

    @self_contained
    def test_a_better_reward_is_no_disadvantage(self, tmp_path: Path) -> None:
        """Among siblings, the one with the better reward never gets the smaller advantage."""
        for rewards, advantages in self._groups(tmp_path):
            ranked = advantages[np.argsort(np.array(rewards), kind="stable")]
            assert (np.diff(ranked) >= -NOTHING).all(), (
                f"{self._blame}: rewards {list(rewards)} gave {advantages.tolist()}: prefer the better"
            )

    @self_contained
    def test_rewards_stay_as_they_are(self, tmp_path: Path) -> None:
        """The arrays of rewards are left as they are: they are logged and compared afterwards."""
        estimator = self._make_of_rewards(tmp_path)
        for step in STEPS:
            given = [np.array(group, dtype=np.float64) for group in step]
            estimator.advantages(given)
            for before, after in zip(step, given, strict=True):
                assert np.array_equal(np.array(before), after), (
                    f"{self._blame} changed the rewards {list(before)} to {after.tolist()}: "
                    "work on new arrays (`a - b`, not `a -= b`)"
                )

    @self_contained
    def test_the_same_rewards_give_the_same(self, tmp_path: Path) -> None:
        """The same rewards give the same advantages, on repeat and from another estimator: a resumed run replays its steps."""
        first, second = self._make_of_rewards(tmp_path), self._make_of_rewards(tmp_path)
        for step in STEPS:
            once, again, elsewhere = (_ask(estimator, step) for estimator in (first, first, second))
            for rewards, *found in zip(step, once, again, elsewhere, strict=False):
                alike = all(np.array_equal(found[0], other) for other in found)
                assert alike, (
                    f"{self._blame}: rewards {list(rewards)} gave {[advantages.tolist() for advantages in found]}: "
                    "keep no state between steps and draw nothing at random"
                )

    @self_contained
    def test_streams_are_whole(self, tmp_path: Path) -> None:
        """`signal` gives each outcome finite numbers of its shape, and a likelihood or divergence only as its traits say."""
        estimator = self._make_or_skip(tmp_path)
        for step in range(1, 4) if read_traits(estimator, EstimatorTraits).gives_streams else ():
            _weigh(estimator, _play(step), self._blame)

    @self_contained
    def test_a_state_goes_on(self, tmp_path: Path) -> None:
        """What `get_state` returns is JSON, and another estimator that `set_state` gives it to goes on as this one does."""
        first, second = self._make_or_skip(tmp_path), self._make_or_skip(tmp_path)
        if not read_traits(first, EstimatorTraits).gives_streams:
            return
        stateful = read_traits(first, EstimatorTraits).keeps_state
        _weigh(first, _play(1), self._blame)
        if stateful:
            second.set_state(json.loads(json.dumps(first.get_state())))
        once, again = (_weigh(estimator, _play(2), self._blame) for estimator in (first, second))
        assert all(np.array_equal(*pair) for pair in zip(once, again, strict=True)), (
            f"{self._blame}: after a step, another estimator with its state gave other streams: "
            + ("return all that it remembers" if stateful else "write `traits = EstimatorTraits(keeps_state=True, …)`")
        )

    def _groups(self, directory: Path) -> Iterator[tuple[Sequence[float], Rewards]]:
        """Yield the rewards of each group of each step, with their advantages."""
        for step in STEPS:
            yield from zip(step, self._advantages(directory, step), strict=False)

    def _advantages(self, directory: Path, step: Sequence[Sequence[float]]) -> list[Rewards]:
        return _ask(self._make_of_rewards(directory), step)

    def _make_of_rewards(self, directory: Path) -> Any:
        made = self._make_or_skip(directory)
        # Streams need not follow from rewards, so the rules of rewards hold for them.
        return _NoAdvantages() if read_traits(made, EstimatorTraits).gives_streams else made


class _NoAdvantages:
    def advantages(self, groups: Sequence[Rewards]) -> list[Rewards]:
        return [np.zeros(len(rewards)) for rewards in groups]


def _play(step: int) -> list[Group]:
    """Return groups of a step: siblings of equal rewards, one alone, some without tokens; one greedy, and one not judged."""
    rewards = [[0.0, 1.0, 0.25 * step], [1.0, 1.0], [0.5]]
    judged: list[list[float | None]] = [[0.5], [None], []]
    return [
        group(
            *(episode(n, value, task=f"t{number}", step=step, rows=min(n, 2)) for n, value in enumerate(siblings)),
            *(episode(GREEDY, value, task=f"t{number}", step=step) for value in greedy),
        )
        for number, (siblings, greedy) in enumerate(zip(rewards, judged, strict=True))
    ]


def _weigh(estimator: Any, groups: Sequence[Group], blame: str) -> list[Rewards]:
    """Return all streams of the trained tokens of some groups."""
    found: dict[tuple[str, str], Rewards] = {}
    for one in (one for siblings in groups for played in siblings.episodes for one in played.samples):
        owner = (one.episode_id, one.agent)
        found[owner] = np.concatenate([found.get(owner, np.zeros(0)), one.logprobs[one.mask] - 0.5])
    scores = dict.fromkeys(read_traits(estimator, EstimatorTraits).scored_by, found)
    try:
        rows = compute_advantages(groups, estimator, scores=scores)
    except PluginError as error:
        raise AssertionError(f"{blame}: {error}") from error
    return [values for row in rows for values in (row.spread(), *row.others.values())]


def _ask(estimator: Any, step: Sequence[Sequence[float]]) -> list[Rewards]:
    return [np.asarray(found) for found in estimator.advantages([np.array(group, dtype=np.float64) for group in step])]
