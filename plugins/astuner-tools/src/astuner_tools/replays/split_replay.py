"""One split of a replay, as it proceeds: its groups are compared and stored one by one, and trained step by step."""

from __future__ import annotations

from attrs import evolve

from astuner.contract.protocols import EpisodeStore
from astuner.contract.schema import Group, Split
from astuner.episodes.builtin.loggers.jsonl_logger import JsonlLogger
from astuner.episodes.rollout.metrics import compute_rollout_metrics, compute_validation_metrics
from astuner_tools.replays.agreement import AgreementCount
from astuner_tools.replays.report import SplitReport
from astuner_tools.replays.trained_signal import Advantages, TrainingChange


class SplitReplay:
    """Takes the groups of a split in their order."""

    def __init__(
        self, split: Split, *, stored: Advantages, new: Advantages, wanted: int, store: EpisodeStore, metrics: JsonlLogger
    ) -> None:
        """`wanted` is how many groups a step of the run trained, if it left out those without signal."""
        self._split, self._stored, self._new, self._wanted = split, stored, new, wanted
        self._store, self._metrics = store, metrics
        self._agreement = AgreementCount(by_agent=new.by_agent)
        self._training = TrainingChange()
        self._step: list[tuple[Group, Group]] = []
        self._steps = 0

    def take(self, judged: tuple[Group, Group]) -> None:
        """Take a group and the same one with its new verdicts."""
        stored, new = judged
        if self._step and self._step[0][0].step != stored.step:
            self._finish_step()
        for episode in new.played:
            self._store.add_episode(evolve(episode, verdict=None) if episode.completed else episode)
        self._store.add_verdicts(new)
        self._agreement.add(stored, new)
        self._step.append(judged)

    def finish(self) -> SplitReport:
        """Return what was found, after the last group."""
        if self._step:
            self._finish_step()
        training = self._training if self._split == "train" else None
        return SplitReport(split=self._split, steps=self._steps, agreement=self._agreement.sum_up(), training=training)

    def _finish_step(self) -> None:
        stored, new = [before for before, _ in self._step], [after for _, after in self._step]
        step, self._step = stored[0].step, []
        self._steps += 1
        if self._split == "validation":
            self._metrics.log(step, compute_validation_metrics(new))
            return
        before, after = self._stored.compute(stored, self._wanted), self._new.compute(new, self._wanted)
        self._training.add(before, after)
        metrics = compute_rollout_metrics(after.chosen.groups or [], after.rows, left_out=after.chosen.left_out)
        self._metrics.log(step, metrics | after.chosen.counts)
