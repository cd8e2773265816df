"""What the loggers show of the episodes of a step: the distribution of rewards, and a few transcripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from attrs import frozen

from astuner.contract.schema import Group
from astuner.episodes.transcript.episode_text import format_transcript
from astuner.settings.config.secrets import Secrets
from astuner_loggers.writers import EpisodeText

Ranked = TypeVar("Ranked")


@frozen(kw_only=True)
class EpisodeSummary:
    """The episodes of a step, or of a validation, that have a reward."""

    prefix: str
    """`val/` for a validation, as in the names of its metrics."""
    rewards: tuple[float, ...]
    """Ascending."""
    shown: tuple[EpisodeText, ...]
    """A few, from the lowest to the highest reward."""


def summarise(groups: Sequence[Group], count: int, secrets: Secrets) -> EpisodeSummary | None:
    """Return the summary, with the transcripts of at most `count` episodes, without the secrets; None if none has a reward."""
    rewarded = [(episode.reward, episode) for group in groups for episode in group.episodes if episode.reward is not None]
    ranked = sorted(rewarded, key=lambda pair: pair[0])
    if not ranked:
        return None
    return EpisodeSummary(
        prefix="val/" if groups[0].split == "validation" else "",
        rewards=tuple(float(reward) for reward, _ in ranked),
        shown=tuple(
            EpisodeText(id=episode.id, reward=float(reward), text=to_encodable(secrets.hide(format_transcript(episode))))
            for reward, episode in choose_evenly(ranked, count)
        ),
    )


def to_encodable(text: str) -> str:
    """Return a text that every service accepts: models sample halves of characters, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def choose_evenly(ranked: Sequence[Ranked], count: int) -> list[Ranked]:
    """Choose `count` of them, evenly from the first to the last."""
    if count >= len(ranked):
        return list(ranked)
    if count <= 1:
        return list(ranked[-1:] if count else ())
    return [ranked[round(place * (len(ranked) - 1) / (count - 1))] for place in range(count)]
