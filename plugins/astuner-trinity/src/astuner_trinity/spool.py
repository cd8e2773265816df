"""Passes finished episodes from the playing processes to the driver: a file per process, read while it grows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from attrs import define, field, frozen

from astuner.contract.protocols import EpisodeStore
from astuner.contract.schema import Episode, Group
from astuner.runs.store.atomic import explain_os_errors
from astuner.runs.store.codec import (
    decode_record,
    dump_task,
    dump_verdict,
    encode_episode,
    encode_record,
    load_episode,
    load_task,
    load_verdict,
    unpack_record,
)
from astuner.runs.store.episode_store import SPLITS, read_episodes
from astuner.runs.store.store_lines import read_records


class EarlierEpisodes(Protocol):
    """Episodes of earlier attempts of the run."""

    def recall(self, identity: str) -> Episode | None:
        """Return one, with its verdict when it has one."""
        ...


class Spool:
    """The writing end, as the store of a playing process; each line reaches the operating system before the next."""

    def __init__(self, path: Path, earlier: EarlierEpisodes) -> None:
        """Append to a file of this process's own; episodes of earlier attempts are taken from there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._earlier = path, earlier
        self._file = path.open("ab", buffering=0)

    def recall(self, identity: str) -> Episode | None:
        """Return an episode of an earlier attempt, with its verdict when it has one."""
        return self._earlier.recall(identity)

    def add_episode(self, episode: Episode) -> None:
        """Write a finished episode, before it is judged."""
        self.add_encoded(episode, encode_episode(episode, self.say))

    def add_encoded(self, episode: Episode, line: bytes) -> None:
        """Write a finished episode of which the line was made already."""
        with explain_os_errors(self._path):
            self._file.write(line)

    def add_verdicts(self, group: Group) -> None:
        """Write the verdicts on a group."""
        found = {episode.id: dump_verdict(episode.verdict) for episode in group.episodes if episode.verdict is not None}
        self._write("verdicts", verdicts=found)

    def add_group(self, group: Group, began: float) -> None:
        """Write that a group is complete, which was begun at this time, in seconds since the epoch."""
        ids = [episode.id for episode in group.episodes]
        times = {"began": began, "ended": time.time()}
        self._write("group", task=dump_task(group.task), step=group.step, split=group.split, episodes=ids, **times)

    def say(self, text: str, level: Literal["info", "warning"] = "warning") -> None:
        """Write a message for the user."""
        self._write("notice", text=text, level=level)

    def sync(self) -> None:
        """Nothing to do: lines are not buffered."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, kind: str, **content: Any) -> None:
        line = encode_record({"kind": kind, **content}, self.say)
        with explain_os_errors(self._path):
            self._file.write(line)


@define
class Lines:
    """Reads JSON lines of a file that others append to."""

    path: Path
    _read: int = field(default=0, init=False)

    def new(self) -> list[dict[str, Any]]:
        """Return the lines since the last call, without an incomplete one."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return [unpack_record(decode_record(line)) for line in whole.split(b"\n")[:-1]]


@frozen
class PlayedEpisode:
    """A finished episode to store."""

    episode: Episode


@frozen
class JudgedGroup:
    """A complete group, and whether its verdicts must be stored."""

    group: Group
    fresh: bool
    began: float
    """In seconds since the epoch, like `ended`."""
    ended: float


@frozen
class Notice:
    """A message for the user."""

    text: str
    level: Literal["info", "warning"]


@define(eq=False)
class SpoolTail:
    """The reading end, over the files of all processes."""

    directory: Path
    earlier: EarlierEpisodes
    """The store from which processes take episodes too."""
    _files: dict[Path, Lines] = field(factory=dict, init=False)
    _open: dict[str, Episode] = field(factory=dict, init=False)
    _fresh: set[str] = field(factory=set, init=False)

    def new(self) -> Iterator[PlayedEpisode | JudgedGroup | Notice]:
        """Yield records since the last call, in the order of each process."""
        for path in sorted(self.directory.glob("*.jsonl")):
            for record in self._files.setdefault(path, Lines(path)).new():
                yield from self._parse(record)

    def _parse(self, record: Mapping[str, Any]) -> Iterator[PlayedEpisode | JudgedGroup | Notice]:
        match record["kind"]:
            case "episode":
                episode = load_episode(record["episode"])
                self._open[episode.id] = episode
                yield PlayedEpisode(episode)
            case "verdicts":
                for identity, data in record["verdicts"].items():
                    verdict = load_verdict(data)
                    known = self._find(identity)
                    if known is not None and verdict is not None:
                        self._open[identity] = known.with_verdict(verdict)
                        self._fresh.add(identity)
            case "group":
                episodes = [self._find(identity) for identity in record["episodes"]]
                found = tuple(episode for episode in episodes if episode is not None)
                group = Group(task=load_task(record["task"]), step=record["step"], split=record["split"], episodes=found)
                fresh = any(identity in self._fresh for identity in record["episodes"])
                for identity in record["episodes"]:
                    self._open.pop(identity, None)
                    self._fresh.discard(identity)
                yield JudgedGroup(group, fresh, record["began"], record["ended"])
            case "notice":
                yield Notice(record["text"], record["level"])

    def _find(self, identity: str) -> Episode | None:
        if identity not in self._open and (earlier := self.earlier.recall(identity)) is not None:
            self._open[identity] = earlier
        return self._open.get(identity)


def store_leftovers(directory: Path, episodes: Path, store: EpisodeStore) -> None:
    """Store the episodes that a killed driver had not stored yet, and remove the files of its processes.

    `episodes` is the directory of the store. What this start has cut off is left out: other weights sampled it.
    """
    cuts = {split: _find_last_cut(episodes / f"{split}.jsonl") for split in SPLITS}
    stored = {episode.id: episode.verdict for split in SPLITS for episode in read_episodes(episodes, split)}
    for one in SpoolTail(directory, store).new():
        played = one.episode if isinstance(one, PlayedEpisode) else one.group if isinstance(one, JudgedGroup) else None
        cut = None if played is None else cuts[played.split]
        if played is not None and cut is not None and played.step > cut:
            continue
        if isinstance(one, PlayedEpisode) and one.episode.id in stored:
            continue
        if isinstance(one, JudgedGroup) and all(stored.get(episode.id) is not None for episode in one.group.episodes):
            continue
        keep(one, store)
    store.sync()
    for file in directory.glob("*.jsonl"):
        file.unlink()


def _find_last_cut(file: Path) -> int | None:
    """Return the step after which the episodes were cut off last; None if something was stored since, or nothing was cut."""
    record = None
    for _, each in read_records(file, brief=True):
        record = each
    return record["step"] if record is not None and record["kind"] == "cut" else None


def keep(one: PlayedEpisode | JudgedGroup | Notice, store: EpisodeStore) -> None:
    """Store an episode or its verdicts. Storing twice is harmless: the last record counts."""
    if isinstance(one, PlayedEpisode):
        store.add_episode(one.episode)
    elif isinstance(one, JudgedGroup) and one.fresh:
        store.add_verdicts(one.group)
