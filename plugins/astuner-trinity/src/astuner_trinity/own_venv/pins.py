"""Reading requirements files: the versions of a lock, the names of overrides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from astuner.contract.errors import UsageError


def read_pins(lock: Path) -> Mapping[str, str]:
    """Return the version of each package of a lock, by normalised name."""
    return {
        canonicalize_name(requirement.name): next(iter(requirement.specifier)).version
        for _, requirement in read_requirements(lock)
        if requirement.specifier
    }


def read_requirements(file: Path) -> Iterator[tuple[int, Requirement]]:
    """Yield line number and requirement of each line that names a package; options and paths are left to the installer.

    Raises `UsageError` if the file cannot be read.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    for number, line in enumerate(lines, start=1):
        # The hashes of a line follow on the next ones, which begin with an option.
        text = line.partition(" #")[0].removesuffix("\\").strip()
        if not text or text.startswith(("#", "-")):
            continue
        try:
            yield number, Requirement(text)
        except InvalidRequirement:
            continue  # a path or an address without a name, which only the installer can read
