"""The append-only store of finished episodes: nothing that was generated or judged is paid for twice."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

from astuner.contract.schema import Episode, Group, Split, Unjudged, Verdict
from astuner.runs.store.atomic import explain_os_errors, sync_directory
from astuner.runs.store.codec import Report, dump_verdict, encode_episode, encode_record, load_episode, load_verdict
from astuner.runs.store.store_lines import UNREADABLE, read_line, read_place, read_records, seal
from astuner.shared.private_files import open_private

SPLITS: tuple[Split, ...] = ("train", "validation")


class StoredEpisodes:
    """Finished episodes of earlier attempts, found by their ids; other processes may append to the files meanwhile."""

    def __init__(self, directory: Path, *, replay_after: int | None, report: Report | None = None) -> None:
        """Index episodes of later steps (validation: of that step too); None finds none.

        `report` gets a message that names the damaged lines, which are left out.
        """
        self._directory = directory
        self._damaged: dict[Path, list[int]] = {}
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
        if report is not None:
            for path, lines in self._damaged.items():
                report(_describe_damage(path, lines))

    def path(self, split: Split) -> Path:
        """Return the file of a split."""
        return self._directory / f"{split}.jsonl"

    def recall(self, identity: str) -> Episode | None:
        """Return an episode of an earlier attempt, with its verdict when it has one.

        None if its output would be refused today: it is played again.
        """
        offset = self._offsets.pop(identity, None)
        verdict = self._verdicts.pop(identity, None)
        if offset is None:
            return None
        split = identity.split("/", 1)[0]
        try:
            with self.path(split).open("rb") as file:  # type: ignore[arg-type]  # an episode's id begins with its split
                file.seek(offset)
                record = read_line(file.readline())["episode"]
            episode = load_episode(record)
        except (OSError, *UNREADABLE):
            # Deleted or damaged since it was indexed, or by an older version, whose lines have no checksum.
            return None
        if record["output"] is not None and not episode.completed:
            return None
        self.reused += 1
        return episode if verdict is None else episode.with_verdict(verdict)

    def _index(self, split: Split, first: int) -> tuple[int, set[str]]:
        """Index the records of a split from step `first` on, and return its last step with what failed to be judged there."""
        latest, failed = -1, set[str]()

        def wants(line: bytes) -> bool:
            nonlocal latest, failed
            _, step = read_place(line)
            if step is not None and step > latest:
                latest, failed = step, set()
            return step is None or step >= first

        for offset, record in read_records(self.path(split), self._add_damage, wants=wants, brief=True):
            if record["kind"] == "cut":
                self._forget_after(split, record["step"])
                latest, failed = min(latest, record["step"]), failed & self._verdicts.keys()
                continue
            if record["kind"] == "forgotten":
                self._forget(record["episodes"], record["verdicts"])
                failed &= self._verdicts.keys()
                continue
            found = record.get("facts") or record.get("episode") or record
            if (step := found["step"]) > latest:
                latest, failed = step, set()
            if step < first:
                continue
            if record["kind"] == "episode":
                self._offsets[found["id"]] = offset
            else:
                verdicts = {key: load_verdict(value) for key, value in record["verdicts"].items()}
                self._verdicts.update(verdicts)
                if step == latest:
                    failed -= verdicts.keys()
                    failed |= {key for key, verdict in verdicts.items() if isinstance(verdict, Unjudged)}
        return latest, failed

    def _add_damage(self, path: Path, line: int) -> None:
        self._damaged.setdefault(path, []).append(line)

    def _forget_verdicts(self, identities: Iterable[str]) -> None:
        for identity in identities:
            del self._verdicts[identity]

    def _forget(self, episodes: Iterable[str], verdicts: Iterable[str]) -> None:
        for identity in episodes:
            self._offsets.pop(identity, None)
        for identity in (*episodes, *verdicts):
            self._verdicts.pop(identity, None)

    def _forget_after(self, split: Split, step: int) -> None:
        for known in (self._offsets, self._verdicts):
            for identity in [each for each in known if _is_after(each, split, step)]:
                del known[identity]


class EpisodeFiles(StoredEpisodes):
    """`train.jsonl` and `validation.jsonl` in the run's `episodes/`: one record per line, an episode or the verdicts of a group.

    Each record reaches the operating system before the next step depends on it, so it outlives the process; a line
    that a crash cut short is dropped at the next start.
    """

    def __init__(self, directory: Path, *, replay_after: int | None = None, report: Report | None = None) -> None:
        """Open for appending. With `replay_after`, episodes of later steps (validation: of that step too) can be recalled.

        `report` gets messages about damaged lines, values that could not be stored as they were, and files that are deleted
        while the run writes to them.
        """
        self._directory, self._report = directory, report
        with explain_os_errors(directory):
            directory.mkdir(parents=True, exist_ok=True)
            for split in SPLITS:
                self._repair(split)
            super().__init__(directory, replay_after=replay_after, report=report)
            self._earlier = set(self._offsets)
            self._files: dict[Split, FileIO] = {split: open_private(self.path(split), "ab", buffering=0) for split in SPLITS}
            for folder in (directory, directory.parent):
                sync_directory(folder)

    def is_replayed(self, identity: str) -> bool:
        """Whether an episode was played by an earlier attempt, and not again by this one."""
        return identity in self._earlier

    def add_episode(self, episode: Episode) -> None:
        """Append a finished episode."""
        self.add_encoded(episode, encode_episode(episode, self._report))

    def add_encoded(self, episode: Episode, line: bytes) -> None:
        """Append a finished episode of which another process has made the line with `codec.encode_episode`."""
        self._earlier.discard(episode.id)
        self._write(episode.split, line)

    def add_verdicts(self, group: Group) -> None:
        """Append the verdicts on a group."""
        found = {episode.id: dump_verdict(episode.verdict) for episode in group.played if episode.verdict is not None}
        self._append(group.split, {"kind": "verdicts", "step": group.step, "group": group.key, "verdicts": found})

    def cut_after(self, step: int) -> int:
        """Forget the training episodes after a step and the validations from it on, and return how many could be recalled.

        Other weights than the run's sampled them. The files keep them, followed by a record that says so.
        """
        before = len(self._offsets)
        last: dict[Split, int] = {"train": step, "validation": step - 1}
        for split in SPLITS:
            # Twice: of any other record a damaged line costs an episode, of this one it would replay those of other weights.
            for _ in range(2):
                self._append(split, {"kind": "cut", "step": last[split]})
            self._forget_after(split, last[split])
        self.sync()
        self._earlier.intersection_update(self._offsets)
        return before - len(self._offsets)

    def forget(self, split: Split, episodes: Sequence[str], verdicts: Sequence[str]) -> None:
        """Let a resumed run play these episodes again, and ask again for these verdicts. The files keep them, for readers."""
        self._append(split, {"kind": "forgotten", "episodes": list(episodes), "verdicts": list(verdicts)})
        self._forget(episodes, verdicts)
        self._earlier.difference_update(episodes)

    def sync(self) -> None:
        """Make everything written so far survive a crash of the machine."""
        for split in SPLITS:
            with explain_os_errors(self.path(split)):
                if not self.path(split).exists():
                    self._begin_again(split)
                os.fsync(self._files[split].fileno())

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _append(self, split: Split, record: dict[str, Any]) -> None:
        self._write(split, encode_record(record, self._report))

    def _write(self, split: Split, line: bytes) -> None:
        with explain_os_errors(self.path(split)):
            if not self.path(split).exists():
                self._begin_again(split)
            line = seal(line)
            written = self._files[split].write(line)
            if written != len(line):
                raise OSError(errno.ENOSPC, f"{written} of {len(line)} bytes written: the disk is full")

    def _begin_again(self, split: Split) -> None:
        """Make a new file for one that was deleted while the run wrote to it."""
        self._directory.mkdir(exist_ok=True)
        self._files[split].close()
        self._files[split] = open_private(self.path(split), "ab", buffering=0)
        lost = [identity for identity in self._offsets if identity.startswith(f"{split}/")]
        for identity in lost:
            del self._offsets[identity]
        self._earlier.difference_update(lost)
        if self._report is not None:
            self._report(
                f"{self.path(split)}: was deleted during the run, with the episodes in it. The run continues, and stores later "
                "ones in a new file; a resume plays those that are gone and not in a checkpoint again"
            )

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
    """Yield the stored episodes of a split with their verdicts, in the order they finished, one at a time in memory.

    The last record of each id wins, and those of steps that were cut off are left out.
    """
    from astuner.runs.store.episode_index import EpisodeIndex

    index = EpisodeIndex(directory / f"{split}.jsonl", step)
    for indexed in index:
        if (episode := index.load(indexed)) is not None:
            yield episode


def _is_after(identity: str, split: Split, step: int) -> bool:
    """Whether an episode's id names a split and a later step."""
    of_split, of_step, _ = identity.split("/", 2)
    return of_split == split and int(of_step) > step


def _describe_damage(path: Path, lines: list[int]) -> str:
    named = ", ".join(map(str, lines[:5])) + (f" and {len(lines) - 5} more" if len(lines) > 5 else "")
    what = f"lines {named} are damaged and are" if len(lines) > 1 else f"line {named} is damaged and is"
    return (
        f"{path}:{lines[0]}: {what} left out. An episode after the checkpoint is played again, a verdict is given again; nothing "
        "needs to be done"
    )
