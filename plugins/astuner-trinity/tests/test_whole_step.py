"""An estimator that compares all episodes of a step gives Trinity's rows the advantages that every backbone trains."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve

torch = pytest.importorskip("torch")
pytest.importorskip("trinity")

from trinity.common.experience import Experience  # noqa: E402

from astuner.contract.protocols import Estimator  # noqa: E402
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
from astuner_trinity.rows import AGENT, COMPARED, EPISODE, UNTRAINED  # noqa: E402

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
