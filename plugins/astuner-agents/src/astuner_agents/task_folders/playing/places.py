"""Where the directories of a task are in a sandbox: at their own paths, or elsewhere, with the texts rewritten."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from attrs import field, frozen

from astuner.contract.protocols import SandboxSession
from astuner_agents.task_folders.playing.errors import TaskNotPlayable

STAGE = ".astuner-task"
"""The directory in the home through which files reach places outside of the working directory."""
LONGEST_TEXT = 1024 * 1024
PUT_S = 120.0
PUT = (
    'stage="$1"; cd "$stage" || exit 1; shift; '
    'for one in * .[!.]*; do if [ -e "$one" ]; then mkdir -p "/$one" && cp -R "$one/." "/$one/" || exit 1; fi; done; '
    'cd / && rm -rf "$stage"; for one in "$@"; do chmod +x "$one" || exit 1; done'
)
"""Moves the staged files to their absolute places; its other arguments are those that can be run."""


@frozen(kw_only=True)
class Places:
    """The directories of one task in one sandbox."""

    moved: Mapping[str, str] = field(factory=dict)
    """The task's path → the path in the sandbox; empty where they are the same."""

    def find(self, path: str) -> str:
        """Return where a path of the task is."""
        for old, new in self.moved.items():
            if path == old or path.startswith(f"{old}/"):
                return new + path[len(old) :]
        return path

    def translate(self, text: str) -> str:
        """Return a text of the task with the paths that it names, where they are in the sandbox."""
        if not self.moved:
            return text
        return _make_pattern(tuple(self.moved)).sub(lambda match: self.moved[match[0]], text)

    async def put(self, session: SandboxSession, files: Mapping[str, Path]) -> None:
        """Write files of this machine to absolute paths of the task; raises `TaskNotPlayable` for what cannot be written."""
        if not files:
            return
        executable = [self.find(path) for path, source in files.items() if source.stat().st_mode & 0o100]
        contents = await asyncio.to_thread(lambda: {path: self._read(source) for path, source in files.items()})
        if self.moved:
            await session.write_files({self._name(path, session): content for path, content in contents.items()})
            words = ["/bin/sh", "-c", 'for one in "$@"; do chmod +x "$one" || exit 1; done', "sh", *executable]
        else:
            await session.write_files({f"~/{STAGE}{path}": content for path, content in contents.items()})
            words = ["/bin/sh", "-c", PUT, "sh", f"{session.home}/{STAGE}", *executable]
        result = await session.run(words, timeout_s=PUT_S)
        if result.exit_code:
            said = result.stderr.strip().splitlines()[-1:] or ["it took too long"]
            raise TaskNotPlayable(f"the files of the task cannot be put into the sandbox: {said[0]}")

    def _name(self, path: str, session: SandboxSession) -> str:
        """Return a path as `write_files` takes it."""
        place = self.find(path)
        if place.startswith(f"{session.workdir}/"):
            return place[len(session.workdir) + 1 :]
        if place.startswith(f"{session.home}/"):
            return f"~/{place[len(session.home) + 1 :]}"
        raise TaskNotPlayable(
            f"the task needs a file at {path}, which this kind of sandbox cannot have: choose docker or bubblewrap in "
            "astuner.sandbox.type"
        )

    def _read(self, source: Path) -> bytes:
        content = source.read_bytes()
        if not self.moved or len(content) > LONGEST_TEXT:
            return content
        try:
            return self.translate(content.decode()).encode()
        except UnicodeDecodeError:
            return content


def move_places(session: SandboxSession, workdir: str, roots: Collection[str]) -> Places:
    """Return places below the directories of a sandbox that has no absolute paths of its own."""
    moved = {root: f"{session.home}/{STAGE}{root}" for root in roots if root != workdir}
    return Places(moved={workdir: session.workdir, **moved})


def _make_pattern(roots: tuple[str, ...]) -> re.Pattern[str]:
    """Match a root where a path begins, and not within a longer path or name."""
    names = "|".join(re.escape(root) for root in sorted(roots, key=len, reverse=True))
    return re.compile(rf"(?<![\w.~}}/-])(?:{names})(?![\w-]|\.\w)")
