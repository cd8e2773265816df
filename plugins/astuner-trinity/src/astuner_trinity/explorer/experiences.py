"""A judged group as Trinity's experiences: one per sample, exact ids, masked, with core's advantages."""

from __future__ import annotations

import numpy as np
import torch
from trinity.common.experience import EID, Experience

from astuner.contract.protocols import Estimator
from astuner.contract.schema import Episode, Group
from astuner.episodes.judging.advantages import WeightedSample, compute_advantages, is_group_relative
from astuner.episodes.judging.estimators import Grpo
from astuner_trinity.explorer.whole_step import ComparedGroup, set_signal
from astuner_trinity.rows import AGENT, COMPARED, EPISODE, EXPLORED, GROUP, SAMPLE, UNTRAINED, VERSION

BLANK_TOKENS = 2
"""Enough for a variance, which some of Trinity's algorithms compute."""


def build_experiences(
    group: Group, estimator: Estimator, *, by_agent: bool, plan: str = "", steps_before: int = 0
) -> list[Experience]:
    """Return the group's rows with trained tokens; a blank one if there are none, since Trinity requires one.

    The trainer counts steps and weights within its stage, before which the run has had `steps_before`.
    For an estimator that may compare all episodes of a step, they carry what `compare_step` needs; it reads the file `plan`.
    """
    episodes = {episode.id: episode for episode in group.episodes}
    compares_step = bool(plan) and not is_group_relative(estimator)
    # What compares the whole step is asked once, when all of its groups are there.
    weighed = compute_advantages([group], Grpo() if compares_step else estimator, by_agent=by_agent)
    rows = [row for row in weighed if row.sample.trained]
    numbers: dict[str, int] = {}
    found = []
    for row in rows:
        episode = episodes[row.sample.episode_id]
        number = numbers[episode.id] = numbers.get(episode.id, -1) + 1
        found.append(_build_experience(row, episode, group, number, steps_before))
    found = found or [build_blank(EID(task=group.task.task_id), group=group.key, step=group.step - steps_before)]
    all_owners, owners = ({(row.sample.episode_id, row.sample.agent) for row in some} for some in (weighed, rows))
    for experience in found:
        experience.info[UNTRAINED] = len(all_owners - owners)
    if compares_step:
        compared = ComparedGroup.of(group, plan, estimator, by_agent=by_agent)
        for experience in found:
            experience.info[COMPARED] = compared
    return found


def _build_experience(row: WeightedSample, episode: Episode, group: Group, number: int, steps_before: int) -> Experience:
    """Return one row, up to its last trained token; its prompt ends before the first one."""
    sample = row.sample
    trained = np.flatnonzero(sample.mask)
    start, end = int(trained[0]), int(trained[-1]) + 1
    if start == 0:
        raise ValueError(f"sample of episode {episode.id!r}: its first id is marked as trained, but nothing precedes it")
    mask = torch.from_numpy(sample.mask[start:end].copy())
    reward = episode.reward_of(sample.agent)
    found = Experience(
        # Trinity fills in the batch, and the task if it has no name.
        eid=EID(task=episode.task.task_id, run=episode.repeat, step=number),
        tokens=torch.from_numpy(sample.ids[:end].astype(np.int64)),
        prompt_length=start,
        action_mask=mask,
        logprobs=torch.from_numpy(np.where(sample.mask[start:end], sample.logprobs[start:end], 0).astype(np.float32)),
        reward=float(reward or 0.0),
        info={
            EPISODE: episode.id,
            AGENT: sample.agent,
            GROUP: group.key,
            VERSION: _oldest_version(episode, sample.calls) - steps_before,
            EXPLORED: group.step - steps_before,
            SAMPLE: number,
        },
        metrics={"reward": float(reward or 0.0)},
    )
    set_signal(found, row)
    return found


def build_blank(eid: EID, *, group: str, step: int) -> Experience:
    """Return a row that trains nothing, for a group or an explorer step without rows."""
    return Experience(
        eid=eid,
        tokens=torch.zeros(1 + BLANK_TOKENS, dtype=torch.int64),
        prompt_length=1,
        action_mask=torch.zeros(BLANK_TOKENS, dtype=torch.bool),
        logprobs=torch.zeros(BLANK_TOKENS),
        advantages=torch.zeros(BLANK_TOKENS),
        reward=0.0,
        info={EPISODE: "", AGENT: "", GROUP: group, VERSION: step - 1, EXPLORED: step, SAMPLE: 0},
        metrics={"reward": 0.0},
    )


def _oldest_version(episode: Episode, calls: tuple[int, ...]) -> int:
    versions = [span.version for call in episode.calls if call.index in calls for span in call.weights]
    return min(versions, default=episode.step - 1)
