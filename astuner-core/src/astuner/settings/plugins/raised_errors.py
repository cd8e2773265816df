"""What foreign code raised when it was imported or looked at, in one line, with the line of the user's file."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from astuner.contract.errors import AstunerError, PluginError
from astuner.contract.plain_values import read_text
from astuner.contract.protocols import Candidate

_CORE = str(Path(__file__).parents[2])
_LIBRARY = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_PACKAGES = ("site-packages", "dist-packages")


def describe_raised(error: BaseException, config_dir: Path | None = None) -> str:
    """Return `KeyError: 'x'`, for code that a configuration names with its innermost line, as in `… (agent.py:12)`.

    `config_dir` is the directory of that configuration.
    """
    place = None if config_dir is None else _find_place(error)
    if place is None or config_dir is None:
        return f"{type(error).__name__}: {read_text(error)}"
    file, line = place
    if file.is_relative_to(config_dir.resolve()):
        file = file.relative_to(config_dir.resolve())
    # The text of a syntax error names the file already.
    text = error.msg if isinstance(error, SyntaxError) else read_text(error)
    return f"{type(error).__name__}: {text} ({file}:{line})"


@contextmanager
def blame_component(candidate: Candidate) -> Iterator[None]:
    """Raise what looking at a component raises as a `PluginError`: a metaclass or an attribute can run any code."""
    try:
        yield
    except AstunerError:
        raise
    except Exception as error:
        raise PluginError(f"{candidate.blame} cannot be read: {describe_raised(error, candidate.config_dir)}") from error


def _find_place(error: BaseException) -> tuple[Path, int] | None:
    if isinstance(error, SyntaxError):
        return (Path(error.filename), error.lineno) if error.filename and error.lineno else None
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    own = [frame for frame in frames if not any(name in Path(frame.filename).parts for name in _PACKAGES)]
    for frame in reversed(own or frames):
        return Path(frame.filename), frame.lineno or 1
    return None


def _is_machinery(filename: str) -> bool:
    """Whether a frame is of the import system, the standard library or core."""
    if filename.startswith(("<frozen", _CORE)):
        return True
    return filename.startswith(_LIBRARY) and not any(name in Path(filename).parts for name in _PACKAGES)
