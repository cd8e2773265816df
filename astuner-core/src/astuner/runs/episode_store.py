"""The append-only store of finished episodes: nothing that was generated or judged is paid for twice."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from astuner.errors import RunFailed
from astuner.runs.atomic import explain_os_errors
from astuner.runs.codec import dump_verdict, encode_episode, encode_record, load_episode, load_verdict
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
            # Nothing was sampled after the last step, so its failed judgements can be repeated: an API was down, or a limit was
            # reached. Earlier steps are replayed as they were, and a validation has sampled from the weights of its step.
            validated, failed = self._index("validation", replay_after)
            self._forget_verdicts(failed)
            trained, failed = self._index("train", replay_after + 1)
            if validated < trained:
                self._forget_verdicts(failed)

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

    def _index(self, split: Split, first: int) -> tuple[int, set[str]]:
        """Index the records of a split from step `first` on, and return its last step with what failed to be judged there."""
        latest, failed = -1, set[str]()
        for offset, record in _read_records(self.path(split)):
            if record["kind"] == "cut":
                self._forget_after(split, record["step"])
                latest, failed = min(latest, record["step"]), failed & self._verdicts.keys()
                continue
            step = record["episode"]["step"] if record["kind"] == "episode" else record["step"]
            if step > latest:
                latest, failed = step, set()
            if step < first:
                continue
            if record["kind"] == "episode":
                self._offsets[record["episode"]["id"]] = offset
            else:
                found = {key: load_verdict(value) for key, value in record["verdicts"].items()}
                self._verdicts.update(found)
                if step == latest:
                    failed -= found.keys()
                    failed |= {key for key, verdict in found.items() if isinstance(verdict, Unjudged)}
        return latest, failed

    def _forget_verdicts(self, identities: Iterable[str]) -> None:
        for identity in identities:
            del self._verdicts[identity]

    def _forget_after(self, split: Split, step: int) -> None:
        for known in (self._offsets, self._verdicts):
            for identity in [each for each in known if _is_after(each, split, step)]:
                del known[identity]


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
            self._earlier = set(self._offsets)
            self._files: dict[Split, FileIO] = {split: self.path(split).open("ab", buffering=0) for split in SPLITS}

    def is_replayed(self, identity: str) -> bool:
        """Whether an episode was played by an earlier attempt, and not again by this one."""
        return identity in self._earlier

    def add_episode(self, episode: Episode) -> None:
        """Append a finished episode."""
        self.add_encoded(episode, encode_episode(episode))

    def add_encoded(self, episode: Episode, line: bytes) -> None:
        """Append a finished episode of which another process has made the line with `codec.encode_episode`."""
        self._earlier.discard(episode.id)
        self._write(episode.split, line)

    def add_verdicts(self, group: Group) -> None:
        """Append the verdicts on a group."""
        found = {episode.id: dump_verdict(episode.verdict) for episode in group.episodes if episode.verdict is not None}
        self._append(group.split, {"kind": "verdicts", "step": group.step, "group": group.key, "verdicts": found})

    def cut_after(self, step: int) -> int:
        """Forget the training episodes after a step and the validations from it on, and return how many could be recalled.

        Other weights than the run's sampled them. The files keep them, followed by a record that says so.
        """
        before = len(self._offsets)
        last: dict[Split, int] = {"train": step, "validation": step - 1}
        for split in SPLITS:
            self._append(split, {"kind": "cut", "step": last[split]})
            self._forget_after(split, last[split])
        self._earlier.intersection_update(self._offsets)
        return before - len(self._offsets)

    def sync(self) -> None:
        """Make everything written so far survive a crash of the machine."""
        for split, file in self._files.items():
            with explain_os_errors(self.path(split)):
                os.fsync(file.fileno())
            if not os.fstat(file.fileno()).st_nlink:
                raise RunFailed(
                    f"{self.path(split)}: it was deleted while the run wrote to it, and with it the episodes of the run. "
                    "Checkpoints that are still there can be continued from with --resume"
                )

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _append(self, split: Split, record: dict[str, Any]) -> None:
        self._write(split, encode_record(record))

    def _write(self, split: Split, line: bytes) -> None:
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
    """Yield the stored episodes of a split with their verdicts, in the order they finished.

    The last record of each id wins, and those of steps that were cut off are left out.
    """
    found: dict[str, Episode] = {}
    for _, record in _read_records(directory / f"{split}.jsonl"):
        if record["kind"] == "episode" and (step is None or record["episode"]["step"] == step):
            episode = load_episode(record["episode"])
            found[episode.id] = episode
        elif record["kind"] == "verdicts":
            for identity, data in record["verdicts"].items():
                if identity in found and (verdict := load_verdict(data)) is not None:
                    found[identity] = found[identity].with_verdict(verdict)
        elif record["kind"] == "cut":
            found = {key: episode for key, episode in found.items() if episode.step <= record["step"]}
    yield from found.values()


def find_last_cut(directory: Path, split: Split) -> int | None:
    """Return the step after which the episodes were cut off last; None if something was stored since, or nothing was cut."""
    record = None
    for _, each in _read_records(directory / f"{split}.jsonl"):
        record = each
    return record["step"] if record is not None and record["kind"] == "cut" else None


def _is_after(identity: str, split: Split, step: int) -> bool:
    """Whether an episode's id names a split and a later step."""
    of_split, of_step, _ = identity.split("/", 2)
    return of_split == split and int(of_step) > step


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
