"""From the sampled tokens of a step to those that change the weights: what is lost on the way, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from astuner.contract.schema import Group, Unjudged
from astuner.episodes.judging.advantages import WeightedSample


@frozen(kw_only=True)
class Waterfall:
    """Numbers of tokens; each stage is the previous one minus the losses between them."""

    sampled: int
    """In all recorded calls: `tokens/generated`."""
    untrained: Mapping[str, int]
    """Sampled tokens that no sample trains, by reason: `signal/lost/tokens_<reason>`."""
    unrewarded: Mapping[str, int]
    """Trained tokens of episodes without a reward, by reason."""
    trainable: int
    """The input of a training step: `signal/tokens_trainable`."""
    with_signal: int
    """Those of them whose advantage is not 0: `signal/tokens_nonzero_advantage`."""
    compares: bool = True
    """Whether some task has several episodes."""

    @property
    def trained(self) -> int:
        """Tokens that a sample trains."""
        return self.trainable + sum(self.unrewarded.values())

    @property
    def without_signal(self) -> int:
        """Trainable tokens with an advantage of 0."""
        return self.trainable - self.with_signal

    @property
    def unexplained(self) -> int:
        """Sampled tokens that a tracker neither trains nor counts: 0, unless it violates its contract."""
        return self.sampled - sum(self.untrained.values()) - self.trained

    def lines(self) -> Iterator[str]:
        """Yield lines of text with aligned numbers."""
        rows = [("", self.sampled, "tokens sampled")]
        rows += [("- ", count, f"untrained: {reason}") for reason, count in sorted(self.untrained.items())]
        rows += [("- ", self.unexplained, "not accounted for by the tracker")] if self.unexplained else []
        rows += [("= ", self.trained, "in samples")]
        rows += [("- ", count, f"without a reward: {reason}") for reason, count in sorted(self.unrewarded.items())]
        rows += [("= ", self.trainable, "trainable")]
        why = "all that are compared got the same reward" if self.compares else "one episode per task has no other to compare"
        rows += [("- ", self.without_signal, f"advantage 0: {why}")]
        rows += [("= ", self.with_signal, "with signal")]
        width = max(len(f"{count:,}") for _, count, _ in rows)
        for sign, count, text in rows:
            if count or sign != "- ":
                yield f"{sign:2}{count:>{width},}  {text}"


def build_waterfall(groups: Sequence[Group], rows: Sequence[WeightedSample]) -> Waterfall:
    """Count the tokens of judged groups; `rows` are their weighted samples."""
    episodes = [episode for group in groups for episode in group.episodes]
    untrained: Counter[str] = Counter()
    unrewarded: Counter[str] = Counter()
    weighted = {id(row.sample) for row in rows}
    for episode in episodes:
        untrained.update(episode.untrained)
        untrained["retried"] += sum(failure.tokens for failure in episode.failures if failure.retried)
        verdict = episode.verdict
        reason = verdict.reason if isinstance(verdict, Unjudged) else "failed" if not episode.completed else "no verdict"
        for sample in episode.samples:
            if id(sample) not in weighted and sample.trained:
                unrewarded[reason] += sample.trained
    return Waterfall(
        compares=any(len(group.episodes) > 1 for group in groups),
        sampled=sum(len(call.output_ids) for episode in episodes for call in episode.calls) + untrained["retried"],
        untrained=dict(+untrained),
        unrewarded=dict(unrewarded),
        trainable=sum(row.sample.trained for row in rows),
        with_signal=sum(row.live_tokens for row in rows),
    )
