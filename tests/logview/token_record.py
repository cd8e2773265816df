"""What a trainer would have recorded of each token of a step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from astuner.contract.schema import Call, Episode, Group
from astuner.episodes.judging.advantages import compute_advantages
from astuner.episodes.judging.estimators import Grpo
from astuner.runs.store.token_store import Stretches, TokenColumns, TokenStore, TrainedTokens, round_to_half

CLIPPED_AT = 3
"""The third token of each call was clipped at the upper bound."""


def write_token_record(directory: Path, step: int, groups: Sequence[Group]) -> None:
    """Write `step_N.npz`: the trainer finds every token a quarter less likely than the sampler did."""
    weights = {row.sample.episode_id: row.advantage for row in compute_advantages(groups, Grpo())}
    episodes = [episode for group in groups for episode in group.episodes if episode.id in weights]
    places = [(number, call) for number, episode in enumerate(episodes) for call in _list_trained(episode)]
    counts = [len(call.output_ids) for _, call in places]
    sampled = np.concatenate([call.logprobs for _, call in places])
    advantages = np.repeat([weights[episodes[number].id] for number, _ in places], counts)
    agents = sorted({call.agent for _, call in places})
    clips = np.concatenate([(np.arange(count) == CLIPPED_AT - 1).astype(np.uint8) * 2 for count in counts])
    TokenStore(directory).write(
        TrainedTokens(
            step=step,
            episodes=tuple(episode.id for episode in episodes),
            agents=tuple(agents),
            stretches=Stretches(
                episode=np.asarray([number for number, _ in places], np.int32),
                agent=np.asarray([agents.index(call.agent) for _, call in places], np.int32),
                call=np.asarray([call.index for _, call in places], np.int32),
                start=np.zeros(len(places), np.int32),
                count=np.asarray(counts, np.int32),
            ),
            columns=TokenColumns(
                logprobs=round_to_half(sampled - 0.25),
                entropies=round_to_half(-sampled / 2),
                reference_logprobs=round_to_half(sampled - 0.5),
                ratios=round_to_half(np.exp(np.full_like(sampled, -0.25))),
                advantages=round_to_half(advantages),
                rl=round_to_half(advantages * 0.78),
                ce=round_to_half(np.zeros_like(sampled)),
                ref_kl=round_to_half(np.full_like(sampled, 0.01)),
                clips=clips,
            ),
        )
    )


def _list_trained(episode: Episode) -> list[Call]:
    return [call for call in episode.calls if call.untrained is None and len(call.output_ids)]
