"""The breakpoints a run stops at, shared with its child processes, and which of them were reached."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from types import FrameType

from attrs import frozen

from astuner.contract.errors import UsageError

TAGS = "ASTUNER_BREAKPOINTS"
"""The environment variable that holds the tags, separated by commas."""

REACHED = "ASTUNER_BREAKPOINTS_REACHED"
"""The environment variable with the path of the file in which a run's processes record the tags they reached."""

DEBUGGER = "stop_at_breakpoint"
"""The function of another package that stops: `stop(tag, frame)`."""

EVERY = "all"
"""Selects every tag."""

_BETWEEN = re.compile(r"[,|\s]+")


@frozen
class BreakpointSelection:
    """The tags that a run stops at."""

    tags: tuple[str, ...]

    def list_unreached(self) -> list[str]:
        """Return the tags that the run has not reached so far."""
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
    """Return the tags selected for this process."""
    return tuple(tag for tag in _BETWEEN.split(os.environ.get(TAGS, "")) if tag)


def is_selected(tag: str) -> bool:
    """Whether to stop at a tag; raises ValueError for an invalid tag."""
    if not tag or tag == EVERY or _BETWEEN.search(tag):
        raise ValueError(f"astuner.breakpoint({tag!r}): a tag must not be '{EVERY}' or contain a comma, | or space")
    return not {tag, EVERY}.isdisjoint(read_tags())


def load_debugger() -> Callable[[str, FrameType], None]:
    """Return what stops at a breakpoint; raises UsageError if no installed package does."""
    from astuner.settings.plugins.functions import load_function

    return load_function(DEBUGGER, "--db: what stops at a breakpoint")


@contextmanager
def select_breakpoints(tags: tuple[str, ...]) -> Iterator[BreakpointSelection]:
    """Select these tags in this process and its child processes; without tags, change nothing."""
    if not tags:
        yield NO_BREAKPOINTS
        return
    import tempfile

    from astuner.shared.processes.process_environment import export_variables

    with (
        tempfile.TemporaryDirectory(prefix="astuner-breakpoints-") as home,
        export_variables({TAGS: ",".join(tags), REACHED: str(Path(home) / "reached")}),
    ):
        yield BreakpointSelection(tags)


def note_first(word: str) -> bool:
    """Record a word for the whole run; return whether it is new, in one of its processes alone."""
    if (path := os.environ.get(REACHED)) is None:
        first = word not in _here
        _here.add(word)
        return first
    with Path(path).open("a+", encoding="utf-8") as file:
        flock(file, LOCK_EX)
        file.seek(0)
        first = word not in file.read().splitlines()
        file.write(f"{word}\n" * first)
    return first


_here: set[str] = set()
"""Words recorded in a process without a run's file."""


def _read_noted() -> set[str]:
    path = os.environ.get(REACHED)
    try:
        return set(Path(path).read_text(encoding="utf-8").splitlines()) if path is not None else _here
    except FileNotFoundError:
        return set()
