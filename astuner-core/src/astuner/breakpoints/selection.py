"""Which breakpoints a run stops at, for the process that asks and all that it starts; and which of them were reached."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from astuner.errors import UsageError

TAGS = "ASTUNER_BREAKPOINTS"
"""The environment variable that holds the tags, separated by commas."""

REACHED = "ASTUNER_BREAKPOINTS_REACHED"
"""The environment variable that names the file in which the processes of a run note what they reached."""

EVERY = "all"
"""Asks for every tag."""

_BETWEEN = re.compile(r"[,|\s]+")


@frozen
class BreakpointSelection:
    """What a run was asked to stop at."""

    tags: tuple[str, ...]

    def list_unreached(self) -> list[str]:
        """Return the tags at which nothing of the run arrived so far."""
        reached = {word for word in _read_noted() if not _BETWEEN.search(word)}
        return [tag for tag in self.tags if (not reached if tag == EVERY else tag not in reached)]


NO_BREAKPOINTS = BreakpointSelection(())


def split_tags(given: Iterable[str]) -> tuple[str, ...]:
    """Return the tags of `--db A,B`, `--db "A|B"` and of several `--db`, each once; raises UsageError for one without a tag."""
    found: dict[str, None] = {}
    for text in given:
        tags = [tag for tag in _BETWEEN.split(text) if tag]
        if not tags:
            raise UsageError(f'--db {text!r}: name the tags of astuner.breakpoint("TAG"), as in --db TAG1,TAG2, or {EVERY}')
        found.update(dict.fromkeys(tags))
    return tuple(found)


def read_tags() -> tuple[str, ...]:
    """Return the tags that this process was asked to stop at."""
    return tuple(tag for tag in _BETWEEN.split(os.environ.get(TAGS, "")) if tag)


def is_selected(tag: str) -> bool:
    """Whether to stop at a tag; raises ValueError for one that no `--db` could name."""
    if not tag or tag == EVERY or _BETWEEN.search(tag):
        raise ValueError(f"astuner.breakpoint({tag!r}): a tag is a word without comma, | and space, and not '{EVERY}'")
    return not {tag, EVERY}.isdisjoint(read_tags())


@contextmanager
def select_breakpoints(tags: tuple[str, ...]) -> Iterator[BreakpointSelection]:
    """Ask for stops at these tags in this process and in those that it starts meanwhile; without any, leave all as it is."""
    if not tags:
        yield NO_BREAKPOINTS
        return
    import tempfile

    from astuner.processes.process_environment import export_variables

    with (
        tempfile.TemporaryDirectory(prefix="astuner-breakpoints-") as home,
        export_variables({TAGS: ",".join(tags), REACHED: str(Path(home) / "reached")}),
    ):
        yield BreakpointSelection(tags)


def note_first(word: str) -> bool:
    """Note something for the whole run; whether it is the first to be noted so."""
    first = word not in _read_noted()
    path = os.environ.get(REACHED)
    if first and path is not None:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{word}\n")
    elif first:
        _here.add(word)
    return first


_here: set[str] = set()
"""What is noted in a process whose tags were not asked for by a run of this machine."""


def _read_noted() -> set[str]:
    path = os.environ.get(REACHED)
    try:
        return set(Path(path).read_text(encoding="utf-8").splitlines()) if path is not None else _here
    except FileNotFoundError:
        return set()
