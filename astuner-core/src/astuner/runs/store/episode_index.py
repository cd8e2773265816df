"""An index of a file of episodes: a few facts of each in memory, the rest read from disk when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import define, field

from astuner.contract.schema import Episode
from astuner.runs.store.codec import judge_facts, load_episode, load_output, load_verdict, read_facts
from astuner.runs.store.store_lines import UNREADABLE, read_line, read_place, read_records


@define(eq=False)
class IndexedEpisode:
    """What is known of an episode without loading it."""

    id: str
    step: int
    task_id: str
    repeat: int
    completed: bool
    offset: int
    """Where its record begins in the file."""
    reward: float | None = None
    is_success: bool | None = None
    judge_failed: bool = False
    """Whether its judge gave a reason instead of a verdict."""
    verdict_offset: int | None = None
    """Where its verdict begins, if one was stored after the episode."""

    @property
    def failed(self) -> bool:
        """Whether the episode or its judge failed."""
        return not self.completed or self.judge_failed


@define(eq=False)
class EpisodeIndex:
    """The stored episodes of one split, in the order in which they finished; the last record of each id counts.

    Episodes of steps that were cut off are left out. The file is only read, and may grow meanwhile.
    """

    path: Path
    step: int | None = None
    """Only the episodes of this step, which takes a fraction of the time; None indexes all."""
    steps: set[int] = field(factory=set)
    """Every step with an episode in the file."""
    damaged: list[int] = field(factory=list)
    """Lines that cannot be read, from 1: each costs an episode, or the verdicts of a group."""
    lost: list[str] = field(factory=list)
    """Ids of episodes that could not be loaded although their line was read before."""
    _episodes: dict[str, IndexedEpisode] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        """Read the file once."""
        for offset, record in read_records(self.path, lambda _, line: self.damaged.append(line), wants=self._wants, brief=True):
            match record["kind"]:
                case "episode":
                    self._add_episode(record, offset)
                case "verdicts":
                    self._add_verdicts(record["verdicts"], offset)
                case "cut":
                    self.steps = {step for step in self.steps if step <= record["step"]}
                    self._episodes = {key: one for key, one in self._episodes.items() if one.step <= record["step"]}

    def __iter__(self) -> Iterator[IndexedEpisode]:
        """Yield what is known of each episode."""
        return iter(self._episodes.values())

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self._episodes)

    def load(self, indexed: IndexedEpisode) -> Episode | None:
        """Return an episode with its verdict; None, and its id in `lost`, if it is damaged or no longer there.

        Lines of older versions have no checksum, so damage may be found only here.
        """
        try:
            with self.path.open("rb") as file:
                episode = load_episode(_read_at(file, indexed.offset)["episode"])
                if indexed.verdict_offset is None:
                    return episode
                verdicts = _read_at(file, indexed.verdict_offset)["verdicts"]
        except (OSError, *UNREADABLE):
            self.lost.append(indexed.id)
            return None
        verdict = load_verdict(verdicts[indexed.id])
        return episode if verdict is None else episode.with_verdict(verdict)

    def _wants(self, line: bytes) -> bool:
        kind, step = read_place(line)
        if step is None or self.step in (None, step):
            return True
        self.steps.update({step} if kind == "episode" else ())
        return False

    def _add_episode(self, record: dict[str, Any], offset: int) -> None:
        facts = record.get("facts") or record["episode"]
        self.steps.add(facts["step"])
        if self.step not in (None, facts["step"]):
            return
        try:
            if "facts" not in record:
                facts = read_facts(facts, load_output(facts["output"])[0] is not None, load_verdict(facts["verdict"]))
            indexed = IndexedEpisode(**facts, offset=offset)
        except UNREADABLE:
            self.lost.append(str(facts["id"]))
            return
        self._episodes[indexed.id] = indexed

    def _add_verdicts(self, verdicts: dict[str, Any], offset: int) -> None:
        for identity, data in verdicts.items():
            if data is not None and (indexed := self._episodes.get(identity)) is not None:
                # One that this version would refuse counts as the judge's failure.
                for name, value in judge_facts(load_verdict(data)).items():
                    setattr(indexed, name, value)
                indexed.verdict_offset = offset


def _read_at(file: Any, offset: int) -> dict[str, Any]:
    file.seek(offset)
    return read_line(file.readline())
