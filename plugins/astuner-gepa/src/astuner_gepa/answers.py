"""The questions of a search with their answers: what a resumed run has asked before, it does not ask again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from astuner.contract.errors import RunFailed
from astuner.runs.store.atomic import explain_os_errors
from astuner.shared.private_files import open_private

FILE = "gepa.jsonl"
"""In the run directory; one JSON object per line, appended as soon as the answer is known."""

Key = tuple[Any, ...]


class AnswerLog:
    """The file `gepa.jsonl`.

    GEPA is a function of its seed and of these answers. A resumed run therefore starts it again from the beginning and answers
    from the file what was asked up to the checkpoint: it arrives at the same candidates and the same random numbers. GEPA's own
    saved state holds no random numbers, and evaluates the first candidate again before it is read.
    """

    def __init__(self, directory: Path) -> None:
        """Read what earlier attempts have written."""
        self._path = directory / FILE
        self._records: dict[Key, dict[str, Any]] = {}
        for line in self._path.read_bytes().splitlines() if self._path.exists() else ():
            try:
                record = json.loads(line)
                self._records[tuple(record["key"])] = record
            except (ValueError, TypeError, KeyError, RecursionError):
                continue  # cut short by a crash; an answer that is missing is noticed when it is looked for
        self._cut_tail()

    def find(self, key: Key) -> dict[str, Any] | None:
        """Return the record with a key, the last one of several."""
        return self._records.get(key)

    def get(self, key: Key, version: str) -> dict[str, Any]:
        """Return a record that an earlier attempt must have written; raises `RunFailed`."""
        found = self.find(key)
        if found is None:
            began = self._records.get(("start",), {}).get("version", version)
            change = (
                f"the search began with gepa {began}, and {version} is installed; install {began} again, or start"
                if (began != version)
                else "a file of the run directory was changed or is damaged; go back with --resume-from, or start"
            )
            raise RunFailed(f"{self._path}: holds no answer to what gepa asks in step {key[2]}: {change} a new run")
        return found

    def add(self, key: Key, **values: Any) -> None:
        """Append a record, and make it durable."""
        record = {"key": list(key), **values}
        self._records[key] = record
        with explain_os_errors(self._path), open_private(self._path, "ab") as file:
            file.write(json.dumps(record, ensure_ascii=True).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _cut_tail(self) -> None:
        """Cut off an incomplete last line."""
        if self._path.exists() and not (content := self._path.read_bytes()).endswith(b"\n"):
            with self._path.open("rb+") as file:
                file.truncate(content.rfind(b"\n") + 1)


def make_evaluation_key(split: str, step: int, texts: Mapping[str, str], tasks: Sequence[str]) -> Key:
    """Return the key of an evaluation."""
    return ("evaluation", split, step, _digest([sorted(texts.items()), list(tasks)]))


def make_reflection_key(step: int, agent: str, question: str) -> Key:
    """Return the key of a question to the reflection LLM: the same question of another step is another one."""
    return ("reflection", agent, step, _digest(question))


def _digest(value: Any) -> str:
    return blake2b(json.dumps(value).encode(), digest_size=16).hexdigest()
