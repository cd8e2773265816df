"""The append-only store of finished episodes: nothing that was generated or judged is paid for twice."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from astuner.runs.atomic import explain_os_errors
from astuner.runs.codec import dump_episode, dump_verdict, load_episode, load_verdict
from astuner.schema import Episode, Group, Split, Unjudged, Verdict

SPLITS: tuple[Split, ...] = ("train", "validation")


class StoredEpisodes:
    """Finished episodes of earlier attempts, found by their ids; other processes may append to the files meanwhile."""

    def __init__(self, directory: Path, *, replay_after: int | None) -> None:
        """Index episodes of later steps (validation: of that step too); None finds none."""
        self._directory = directory
        self._offsets: dict[str, int] = {}
        self._verdicts: dict[str, Verdict | Unjudged | None] = {}
        self.reused = 0
        if replay_after is not None:
            for split in SPLITS:
                self._index(split, replay_after)

    def path(self, split: Split) -> Path:
        """Return the file of a split."""
        return self._directory / f"{split}.jsonl"

    def recall(self, identity: str) -> Episode | None:
        """Return an episode of an earlier attempt, with its verdict when it has one."""
        offset = self._offsets.pop(identity, None)
        if offset is None:
            return None
        split = identity.split("/", 1)[0]
        with self.path(split).open("rb") as file:  # type: ignore[arg-type]  # an episode's id begins with its split
            file.seek(offset)
            episode = load_episode(json.loads(file.readline())["episode"])
        self.reused += 1
        verdict = self._verdicts.pop(identity, None)
        return episode if verdict is None else episode.with_verdict(verdict)

    def _index(self, split: Split, replay_after: int) -> None:
        first = replay_after + 1 if split == "train" else replay_after
        latest, failed = first, set[str]()
        for offset, record in _read_records(self.path(split)):
            step = record["episode"]["step"] if record["kind"] == "episode" else record["step"]
            if step > latest:
                latest, failed = step, set()
            if record["kind"] == "episode" and step >= first:
                self._offsets[record["episode"]["id"]] = offset
            elif record["kind"] == "verdicts" and step >= first:
                found = {key: load_verdict(value) for key, value in record["verdicts"].items()}
                self._verdicts.update(found)
                if step == latest:
                    failed -= found.keys()
                    failed |= {key for key, verdict in found.items() if isinstance(verdict, Unjudged)}
        # Nothing was sampled after the last step, so its failed judgements can be repeated: an API was down, or a limit
        # was reached. Earlier steps are replayed as they were.
        for identity in failed:
            del self._verdicts[identity]


class EpisodeFiles(StoredEpisodes):
    """`train.jsonl` and `validation.jsonl` in the run's `episodes/`: one record per line, an episode or the verdicts of a group.

    Each record reaches the operating system before the next step depends on it, so it outlives the process; a line
    that a crash cut short is dropped at the next start.
    """

    def __init__(self, directory: Path, *, replay_after: int | None = None) -> None:
        """Open for appending. With `replay_after`, episodes of later steps (validation: of that step too) can be recalled."""
        self._directory = directory
        with explain_os_errors(directory):
            directory.mkdir(parents=True, exist_ok=True)
            for split in SPLITS:
                self._repair(split)
            super().__init__(directory, replay_after=replay_after)
            self._files: dict[Split, FileIO] = {split: self.path(split).open("ab", buffering=0) for split in SPLITS}

    def add_episode(self, episode: Episode) -> None:
        """Append a finished episode."""
        self._append(episode.split, {"kind": "episode", "episode": dump_episode(episode)})

    def add_verdicts(self, group: Group) -> None:
        """Append the verdicts on a group."""
        found = {episode.id: dump_verdict(episode.verdict) for episode in group.episodes if episode.verdict is not None}
        self._append(group.split, {"kind": "verdicts", "step": group.step, "group": group.key, "verdicts": found})

    def sync(self) -> None:
        """Make everything written so far survive a crash of the machine."""
        for split, file in self._files.items():
            with explain_os_errors(self.path(split)):
                os.fsync(file.fileno())

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _append(self, split: Split, record: dict[str, Any]) -> None:
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        with explain_os_errors(self.path(split)):
            written = self._files[split].write(line)
            if written != len(line):
                raise OSError(errno.ENOSPC, f"{written} of {len(line)} bytes written: the disk is full")

    def _repair(self, split: Split) -> None:
        """Cut off an incomplete last line."""
        path = self.path(split)
        if not path.exists() or not (size := path.stat().st_size):
            return
        with path.open("rb+") as file:
            end = size
            while end > 0:
                start = max(0, end - 65536)
                file.seek(start)
                found = file.read(end - start).rfind(b"\n")
                if found >= 0:
                    file.truncate(start + found + 1)
                    return
                end = start
            file.truncate(0)


def read_episodes(directory: Path, split: Split, *, step: int | None = None) -> Iterator[Episode]:
    """Yield the stored episodes of a split with their verdicts, in the order they finished; the last record of each id wins."""
    found: dict[str, Episode] = {}
    for _, record in _read_records(directory / f"{split}.jsonl"):
        if record["kind"] == "episode" and (step is None or record["episode"]["step"] == step):
            episode = load_episode(record["episode"])
            found[episode.id] = episode
        elif record["kind"] == "verdicts":
            for identity, data in record["verdicts"].items():
                if identity in found and (verdict := load_verdict(data)) is not None:
                    found[identity] = found[identity].with_verdict(verdict)
    yield from found.values()


def _read_records(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the complete records of a file, each with where it begins; none if there is no file."""
    if path.exists():
        with path.open("rb") as file:
            offset = 0
            for line in file:
                if not line.endswith(b"\n"):
                    break  # cut short by a crash, or still being written
                yield offset, json.loads(line)
                offset += len(line)
