"""The lines of the episode store: each a JSON record with a checksum, so that damage costs one record and is never replayed."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from astuner.runs.store.codec import decode_record, load_verdict, unpack_record
from astuner.shared.private_files import open_stored

_SEAL = b'{"crc":"%08x",'
_PREFIX = b'{"crc":"'
_SEALED = len(_SEAL % 0)
_PLACE = re.compile(
    rb'\{"crc":"[0-9a-f]{8}","kind":"(?:(episode)","(?:facts|episode)":\{"id":"[a-z]+/|(verdicts)","step":)([0-9]+)[/,]'
)
_FACTS, _FACTS_END = b'"kind":"episode","facts":', b',"episode":{'

UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What reading a record raises whose content is not what was written."""

OnDamage = Callable[[Path, int], object]
"""Takes the file and the number of a damaged line, from 1."""


def seal(line: bytes) -> bytes:
    """Return the line of a JSON object with the checksum of the rest as its first key."""
    rest = line[1:]
    return _SEAL % zlib.crc32(rest) + rest


def read_line(line: bytes) -> dict[str, Any]:
    """Return the record of a line; lines of older versions have no checksum. Raises one of `UNREADABLE` for a damaged one."""
    record: dict[str, Any] = unpack_record(decode_record(check_line(line)))
    check_record(record)
    return record


def check_line(line: bytes) -> bytes:
    """Return the JSON of a line without its checksum, if it has one; raises ValueError if that is not of the rest."""
    if not line.startswith(_PREFIX):
        return line
    rest = line[_SEALED:]
    if line[:_SEALED] != _SEAL % zlib.crc32(rest):
        raise ValueError("another checksum than when it was written")
    return b"{" + rest


def read_place(line: bytes) -> tuple[str | None, int | None]:
    """Return the kind and the step of an episode or verdicts without decoding the line; None if its beginning does not say so."""
    found = _PLACE.match(line)
    return (None, None) if found is None else ((found[1] or found[2]).decode(), int(found[3]))


def _read_facts(line: bytes) -> dict[str, Any] | None:
    """Return the record of an episode with nothing but its facts; None if the line does not begin with them."""
    if not line.startswith(_FACTS, _SEALED):
        return None
    # No text has an unescaped quotation mark, so this is where the facts end.
    facts = json.loads(line[_SEALED + len(_FACTS) : line.index(_FACTS_END)])
    if facts["step"] != int(facts["id"].split("/", 2)[1]):
        raise ValueError("its facts are of another step than its id")
    return {"kind": "episode", "facts": facts}


def check_record(record: dict[str, Any]) -> None:
    """Raise one of `UNREADABLE` for a record without what finding it takes."""
    kind = record["kind"]
    if kind == "forgotten":
        if not all(isinstance(each, str) for each in (*record["episodes"], *record["verdicts"])):
            raise ValueError("it does not name episodes")
        return
    step = record["episode"]["step"] if kind == "episode" else record["step"]
    if kind == "episode":
        split, of_step, _ = record["episode"]["id"].split("/", 2)
        whole = int(of_step) == step and split == record["episode"]["split"]
    else:
        whole = kind in ("cut", "verdicts")
        for verdict in record["verdicts"].values() if kind == "verdicts" else ():
            load_verdict(verdict)
    if not whole or not isinstance(step, int):
        raise ValueError("it is not a record of an episode, of verdicts or of a cut")


def read_records(
    path: Path, on_damage: OnDamage | None = None, *, wants: Callable[[bytes], bool] | None = None, brief: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a file, each with where it begins; none if there is no file. Damaged lines are left out.

    Lines with a checksum for which `wants` returns False are left out too, after the checksum was compared. `brief` yields the
    `facts` of an episode in its place, if its line begins with them; those of older versions do not.
    """
    if not path.exists():
        return
    with open_stored(path) as file:
        offset = 0
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break  # cut short by a crash, or still being written
            try:
                record = _read_wanted(line, wants, brief)
            except UNREADABLE:
                if on_damage is not None:
                    on_damage(path, number)
            else:
                if record is not None:
                    yield offset, record
            offset += len(line)


def _read_wanted(line: bytes, wants: Callable[[bytes], bool] | None, brief: bool) -> dict[str, Any] | None:
    if line.startswith(_PREFIX):
        check_line(line)
        if wants is not None and not wants(line):
            return None
        if brief and (found := _read_facts(line)) is not None:
            return found
    return read_line(line)
