"""The forms in which a configuration names a component."""

from __future__ import annotations

import stat
from pathlib import Path

from attrs import frozen

FORMS = "a name, `dist/name`, `package.module:Class` or `./file.py:Class`"


@frozen(kw_only=True)
class ByName:
    """`name` or `dist/name`: an installed component."""

    name: str
    dist: str | None = None


@frozen(kw_only=True)
class ByPath:
    """`package.module:Class`, `package.module->Class` or `./file.py:Class`: code that is named by its place."""

    target: str
    """`package.module:Class`, or `/absolute/file.py:Class`."""


def parse(spec: str, config_dir: Path) -> ByName | ByPath:
    """Parse either form; raises `ValueError` with the mistake."""
    text = spec.strip().replace("->", ":")
    place, colon, attribute = text.rpartition(":")
    if colon:
        return _by_path(place.strip(), attribute.strip(), config_dir)
    if text.endswith(".py"):
        raise ValueError(f"which class of the file? Write `{text}:ClassName`")
    if not text:
        raise ValueError(f"is empty; give {FORMS}")
    dist, slash, name = text.rpartition("/")
    return ByName(name=name, dist=dist if slash else None)


def _by_path(place: str, attribute: str, config_dir: Path) -> ByPath:
    if not all(part.isidentifier() for part in attribute.split(".")):
        raise ValueError(f"{attribute!r} is not the name of a class; give {FORMS}")
    if place.endswith(".py"):
        return ByPath(target=f"{find_file(place, config_dir)}:{attribute}")
    if not all(part.isidentifier() for part in place.split(".")):
        raise ValueError(f"{place!r} is neither a module nor a `.py` file; give {FORMS}")
    return ByPath(target=f"{place}:{attribute}")


class NoSuchFile(ValueError):
    """A component is named by a file that does not exist."""


def find_file(place: str, config_dir: Path) -> Path:
    """Return the file of `./file.py`, which starts at the directory of the YAML; raises `ValueError` if it is none."""
    try:
        file = (config_dir / Path(place).expanduser()).resolve()
        mode = file.stat().st_mode
    except FileNotFoundError:
        raise NoSuchFile(f"there is no file {file}") from None
    except (OSError, RuntimeError) as error:
        # A loop of symbolic links is a RuntimeError in older versions of Python.
        reason = str(getattr(error, "strerror", None) or error).rstrip(".")
        raise ValueError(f"{config_dir / place} cannot be read: {reason}") from error
    except ValueError as error:
        raise ValueError(f"{place!r} is not the name of a file: {error}") from error
    if stat.S_ISDIR(mode):
        raise ValueError(f"{file} is a directory, not a file")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{file} is not a regular file")
    return file
