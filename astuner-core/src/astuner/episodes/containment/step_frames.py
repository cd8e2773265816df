"""Where users' code is within a step of a task, read from another thread."""

from __future__ import annotations

import inspect
import linecache
from pathlib import Path
from types import FrameType
from typing import Any

from attrs import field, frozen

from astuner.episodes.containment.code_lines import format_file, is_installed, is_own, read_current_frames

_IMPORT = "<frozen importlib"
"""The file names of an import's frames."""
_AWAITED = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR


@frozen(kw_only=True)
class UserFrame:
    """A call of a function in a file of the user."""

    call: int
    """Tells it from other calls while it lasts; the frame itself would keep its variables alive."""
    file: str
    function: str
    begins_at: int
    """The line of its `def`."""
    line: int = field(eq=False)
    awaits: bool = field(eq=False)
    """Whether it awaits what runs."""

    @property
    def text(self) -> str:
        """The source of its line."""
        return linecache.getline(self.file, self.line).strip()

    def format(self, *, with_line: bool) -> str:
        """Return `agent.py:12 in solve`; without the line, that of the function."""
        return f"{format_file(self.file)}:{self.line if with_line else self.begins_at} in {self.function}"


def read_step_frames(thread: int, work: Any) -> tuple[UserFrame, ...]:
    """Return the user's calls in what a thread runs of the coroutine `work`, outermost first.

    None if the thread runs something else, if the user's code has called this package, or if a module is imported: that
    happens once.
    """
    outermost = getattr(work, "cr_frame", None)
    frame: FrameType | None = read_current_frames().get(thread)
    found: list[UserFrame] = []
    inner: FrameType | None = None
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_IMPORT) or (is_own(name) and not found):
            return ()
        if not is_own(name) and not is_installed(name):
            found.append(_describe(frame, inner))
        if frame is outermost:
            return tuple(reversed(found))
        inner, frame = frame, frame.f_back
    return ()


def _describe(frame: FrameType, inner: FrameType | None) -> UserFrame:
    code = frame.f_code
    return UserFrame(
        call=id(frame),
        file=str(Path(code.co_filename)),
        function=code.co_name,
        begins_at=code.co_firstlineno,
        line=frame.f_lineno or code.co_firstlineno,
        awaits=inner is not None and bool(inner.f_code.co_flags & _AWAITED),
    )
