"""An estimator that compares all episodes of a step gives Trinity's rows the advantages that every backbone trains."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from attrs import evolve

torch = pytest.importorskip("torch")
pytest.importorskip("trinity")

from trinity.common.experience import Experience  # noqa: E402

from astuner.contract.protocols import Estimator, EstimatorTraits, Outcome, Streams  # noqa: E402
from astuner.contract.schema import Group  # noqa: E402
from astuner.episodes.judging.advantages import compute_advantages  # noqa: E402
from astuner.episodes.judging.estimators import (  # noqa: E402
    Grpo,
    ReinforcePlusPlus,
    ReinforcePlusPlusBaseline,
    ReinforcePlusPlusEpisode,
)
from astuner_devkit.episodes import episode, group  # noqa: E402
from astuner_trinity.explorer.experiences import build_experiences  # noqa: E402
from astuner_trinity.explorer.whole_step import compare_step  # noqa: E402
from astuner_trinity.packed_floats import unpack_floats  # noqa: E402
from astuner_trinity.rows import AGENT, COMPARED, EPISODE, STREAMS, UNTRAINED  # noqa: E402

REWARDS = {"easy": (1.0, 1.0, 1.0), "mid": (1.0, 0.0, 1.0), "hard": (0.0, 0.0, 0.0), "lost": (None, None, None)}


def groups() -> list[Group]:
    return [
        group(*(episode(i, reward, task=task, rows=1 + i) for i, reward in enumerate(rewards)))
        for task, rewards in REWARDS.items()
    ]


def play(estimator: Estimator) -> list[Experience]:
    """Return a step's rows as the processes that play groups make them."""
    return [row for one in groups() for row in build_experiences(one, estimator, by_agent=True, plan="plan.json")]


@pytest.mark.parametrize("estimator", [ReinforcePlusPlus(), ReinforcePlusPlusBaseline(), ReinforcePlusPlusEpisode(), Grpo()])
def test_rows_have_the_advantages_of_the_whole_step(estimator: Estimator) -> None:
    rows = play(estimator)
    compare_step(rows, estimator)
    expected = {(row.sample.episode_id, row.sample.agent): row.advantage for row in compute_advantages(groups(), estimator)}
    found = {(row.info[EPISODE], row.info[AGENT]): row.advantages.unique().tolist() for row in rows if row.info[EPISODE]}
    assert found == {owner: [pytest.approx(advantage)] for owner, advantage in expected.items()}
    assert not any(COMPARED in row.info for row in rows)


class Imitation:
    """Imitates by rank in the step, and holds every second token at the sampler."""

    traits = EstimatorTraits(gives_streams=True, beyond_advantages=True, group_relative=False)

    def signal(self, groups: Sequence[Sequence[Outcome]]) -> list[list[Streams]]:
        """Return streams that differ by token, and by the best of all groups."""
        best = max((one.reward for siblings in groups for one in siblings), default=0.0)
        return [[self._weigh(one, best) for one in siblings] for siblings in groups]

    def _weigh(self, one: Outcome, best: float) -> Streams:
        ranks = np.arange(one.tokens) / one.tokens
        return Streams(advantages=ranks, likelihood=one.reward - best - ranks, divergence=ranks > 0.5, reference="sampler")


class ImitationOfSiblings(Imitation):
    """The same within each group."""

    traits = EstimatorTraits(gives_streams=True, beyond_advantages=True)


@pytest.mark.parametrize("estimator", [Imitation(), ImitationOfSiblings()])
def test_rows_have_what_an_estimator_adds_to_the_loss(estimator: Estimator) -> None:
    played = groups()
    rows = [row for one in played for row in build_experiences(one, estimator, by_agent=True, plan="plan.json")]
    rows = Experience.deserialize_many(Experience.serialize_many(rows))
    compare_step(rows, estimator)
    compared = [played] if isinstance(estimator, Imitation) and not estimator.traits.group_relative else [[one] for one in played]
    weighed = [row for part in compared for row in compute_advantages(part, estimator)]
    for row, expected in zip([row for row in rows if row.info[EPISODE]], weighed, strict=True):
        mask = row.action_mask.bool()
        assert row.advantages[mask].tolist() == pytest.approx(expected.spread())
        given = {name: unpack_floats(row.info[name]) for name in STREAMS if name in row.info}
        assert {name: values[mask] for name, values in given.items()} == {
            name: pytest.approx(values) for name, values in expected.others.items()
        }
        assert all(not values[~mask].any() for values in given.values())
        # Trinity writes it as JSON too.
        assert json.loads(json.dumps(row.info)) == row.info
    assert any("likelihood" in row.info for row in rows)
    assert not any(COMPARED in row.info for row in rows)


def test_an_estimator_that_compares_siblings_needs_nothing_of_the_step() -> None:
    assert not any(COMPARED in row.info for row in play(Grpo()))


def test_rows_know_of_sequences_without_a_trained_token() -> None:
    first, *others = group(*(episode(i, float(i)) for i in range(3))).episodes
    masked = [evolve(sample, mask=np.zeros_like(sample.mask)) for sample in first.samples]
    rows = build_experiences(group(evolve(first, samples=masked), *others), Grpo(), by_agent=True)
    assert [(row.info[EPISODE], row.info[UNTRAINED]) for row in rows] == [(one.id, 1) for one in others]


def test_rows_that_another_operator_drops_still_count_for_the_others() -> None:
    every, some = play(ReinforcePlusPlus()), play(ReinforcePlusPlus())[1:]
    compare_step(every, ReinforcePlusPlus())
    compare_step(some, ReinforcePlusPlus())
    assert [row.advantages.tolist() for row in some] == [row.advantages.tolist() for row in every[1:]]
