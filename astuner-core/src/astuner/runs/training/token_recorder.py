"""Recording what was trained: the values of a trainer with the places of its tokens in their episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from attrs import frozen

from astuner.contract.schema import Group
from astuner.episodes.judging.advantages import WeightedSample
from astuner.episodes.transcript.trained_tokens import TrainedStretch, find_trained_stretches
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.token_store import Stretches, TokenColumns, TokenStore, TrainedTokens, round_to_half
from astuner.runs.training.token_values import TokenValues
from astuner.settings.config.trainer import TokenRecord


@frozen(kw_only=True, eq=False)
class TokenRecorder:
    """Writes the trained tokens of each step."""

    store: TokenStore

    @classmethod
    def open(
        cls, directory: RunDirectory, options: TokenRecord, report: Callable[[str], object] | None = None
    ) -> TokenRecorder | None:
        """Return the recorder of a run; None if `trainer_common.token_record.enable` is off."""
        if not options.enable:
            return None
        return cls(store=TokenStore(directory.trained_tokens, most_bytes=options.most_gb * 1e9, report=report))

    def record(self, step: int, groups: Sequence[Group], rows: Sequence[WeightedSample], values: TokenValues | None) -> None:
        """Write a step: its groups, the rows that were made of their samples, and the values of these; none, no file."""
        if values is not None and values.lengths.any():
            self.store.write(locate_values(step, groups, rows, values))


def locate_values(step: int, groups: Sequence[Group], rows: Sequence[WeightedSample], values: TokenValues) -> TrainedTokens:
    """Return the values of a step's rows with the places of their tokens.

    Raises `ValueError` if a row's sample is not one of the groups', or does not train as many tokens as it has values.
    """
    places: dict[int, tuple[TrainedStretch, ...]] = {}
    for group in groups:
        for episode in group.episodes:
            found = find_trained_stretches(episode)
            places.update((id(sample), one) for sample, one in zip(episode.samples, found, strict=True))
    episodes: dict[str, int] = {}
    agents: dict[str, int] = {}
    stretches: list[tuple[int, int, int, int, int]] = []
    advantages = []
    for number, (row, length) in enumerate(zip(rows, values.lengths.tolist(), strict=True)):
        if not length:
            continue
        sample = row.sample
        _check_row(number, row, length, places)
        advantages.append(row.spread())
        owner = episodes.setdefault(sample.episode_id, len(episodes)), agents.setdefault(sample.agent, len(agents))
        stretches += ((*owner, one.call, one.start, one.count) for one in places[id(sample)])
    table = np.array(stretches, np.int32).T
    return TrainedTokens(
        step=step,
        episodes=tuple(episodes),
        agents=tuple(agents),
        stretches=Stretches(episode=table[0], agent=table[1], call=table[2], start=table[3], count=table[4]),
        columns=TokenColumns(
            logprobs=round_to_half(values.logprobs),
            entropies=round_to_half(values.entropies),
            reference_logprobs=round_to_half(values.reference_logprobs),
            ratios=round_to_half(values.ratios),
            advantages=round_to_half(np.concatenate(advantages)),
            rl=round_to_half(values.rl),
            ce=round_to_half(values.ce),
            ref_kl=round_to_half(values.ref_kl),
            clips=values.clips,
        ),
    )


def _check_row(number: int, row: WeightedSample, length: int, places: Mapping[int, object]) -> None:
    sample = row.sample
    if id(sample) not in places:
        raise ValueError(f"row {number}: its sample of episode {sample.episode_id!r} is not in the groups of the step")
    if length != sample.trained:
        raise ValueError(
            f"row {number} of episode {sample.episode_id!r} trains {sample.trained} tokens, and the trainer gave {length} values"
        )
