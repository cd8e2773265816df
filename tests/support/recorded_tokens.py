"""What a run recorded of the tokens that it trained, held against the episodes that it stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from astuner.contract.protocols import Estimator
from astuner.contract.schema import Episode, Group
from astuner.episodes.judging.advantages import compute_advantages
from astuner.episodes.judging.estimators import Grpo
from astuner.episodes.transcript.trained_tokens import mark_trained_tokens
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import read_episodes
from astuner.runs.store.token_store import TokenStore


def check_recorded_tokens(run: Path, rows: Sequence[Mapping[str, float]], estimator: Estimator | None = None) -> None:
    """Assert that a synchronous run with the metrics `rows` recorded what it trained, once, and nothing else.

    It has a divergence in its loss; its estimator is `grpo` unless one is given.
    """
    trained = [int(row["step"]) for row in rows if row.get("tokens/trained")]
    # Where the rewards of all siblings agree, a step trains nothing.
    assert TokenStore(RunDirectory(run).trained_tokens).list_steps() == trained
    for step in trained:
        _check_step(run, step, estimator or Grpo())


def _check_step(run: Path, step: int, estimator: Estimator) -> None:
    groups = _list_groups(run, step)
    tokens = TokenStore(RunDirectory(run).trained_tokens).read(step)
    assert tokens is not None
    rows = compute_advantages(groups, estimator)
    assert len(tokens.columns.logprobs) == sum(row.sample.trained for row in rows) > 0
    advantages = {row.sample.episode_id: row.advantage for row in rows}
    for episode in (episode for group in groups for episode in group.episodes):
        marks = mark_trained_tokens(episode)
        for call in episode.calls:
            found, trained = tokens.of(episode.id, call), marks[call.index]
            if found is None:
                assert not trained.any()
                continue
            for name in ("logprobs", "entropies", "reference_logprobs", "ratios", "rl", "ref_kl", "advantages"):
                assert np.isfinite(getattr(found, name)).tolist() == trained.tolist(), name
            for name in ("advantages", "rl"):
                np.testing.assert_allclose(getattr(found, name)[trained], advantages[episode.id], rtol=1e-3, err_msg=name)
            # The weights that sampled a token train it, so only rounding lies between.
            np.testing.assert_allclose(found.logprobs[trained], call.logprobs[trained], rtol=2e-3, atol=2e-3)
            np.testing.assert_array_equal(found.ratios[trained], 1)
            assert not found.clips.any()


def _list_groups(run: Path, step: int) -> list[Group]:
    """Return the groups of a step, in the order of their tasks."""
    found: dict[str, list[Episode]] = {}
    for episode in read_episodes(run / "episodes", "train", step=step):
        found.setdefault(episode.task.task_id, []).append(episode)
    return [
        Group(task=episodes[0].task, step=step, split="train", episodes=tuple(sorted(episodes, key=lambda one: one.repeat)))
        for _, episodes in sorted(found.items())
    ]
