"""What a Dockerfile says, as far as it can be followed without building an image: `WORKDIR`, `COPY` and `ENV`."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from attrs import define, field, frozen

from astuner.contract.errors import DataError

IGNORED = ("ARG", "CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "SHELL", "STOPSIGNAL", "VOLUME")
"""They change nothing of what commands in a sandbox find."""


@frozen(kw_only=True)
class ImageRecipe:
    """An image, and what is put into it."""

    base: str | None = None
    """The image that it starts from."""
    workdir: str | None = None
    files: Mapping[str, Path] = field(factory=dict)
    """Files by absolute path in the image, with where they are here."""
    env: Mapping[str, str] = field(factory=dict)
    user: str | None = None
    needs_build: str | None = None
    """The first line that only a build can follow, as `line 3: RUN apt-get update`."""


def read_dockerfile(file: Path) -> ImageRecipe:
    """Read a Dockerfile; raises `DataError` if it cannot be read. Lines after one that needs a build still set the directory."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read as UTF-8: {error}") from error
    reading = _Reading(file.parent)
    for number, line in _join_lines(text):
        reading.follow(number, line)
    return ImageRecipe(
        base=reading.base,
        workdir=reading.workdir,
        files=reading.files,
        env=reading.env,
        user=reading.user,
        needs_build=reading.needs_build,
    )


@define
class _Reading:
    context: Path
    base: str | None = None
    workdir: str | None = None
    files: dict[str, Path] = field(factory=dict)
    env: dict[str, str] = field(factory=dict)
    user: str | None = None
    needs_build: str | None = None

    def follow(self, number: int, line: str) -> None:
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        match word.upper():
            case "FROM" if self.base is None:
                self.base = next((part for part in rest.split() if not part.startswith("--")), None)
                done = self.base is not None and "$" not in rest
            case "WORKDIR" if "$" not in rest:
                self.workdir = str(PurePosixPath(self.workdir or "/", rest.strip("\"'")))
                done = True
            case "ENV":
                done = self._set_variables(rest)
            case "USER" if "$" not in rest:
                self.user, done = rest, True
            case "COPY" | "ADD":
                done = self._copy(rest)
            case name:
                done = name in IGNORED
        if not done and self.needs_build is None:
            self.needs_build = f"line {number}: {line if len(line) < 80 else line[:77] + '...'}"

    def _set_variables(self, rest: str) -> bool:
        try:
            words = shlex.split(rest)
        except ValueError:
            return False
        if words and "=" not in words[0]:
            words = [f"{words[0]}={' '.join(words[1:])}"]
        found = dict(word.split("=", 1) for word in words if "=" in word)
        if any("$" in value for value in found.values()):
            return False
        self.env |= found
        return True

    def _copy(self, rest: str) -> bool:
        words = _split_copied(rest)
        flags = [word for word in words if word.startswith("--")]
        *sources, target = [word for word in words if not word.startswith("--")] or [""]
        if not sources or any("://" in one or "$" in one for one in (*sources, target)):
            return False
        if any(not flag.startswith(("--chown=", "--chmod=", "--link")) for flag in flags):
            return False
        found = [path for source in sources for path in self._find(source)]
        place = PurePosixPath(self.workdir or "/", target)
        is_folder = target.endswith(("/", ".")) or len(found) > 1
        for path in found:
            if path.is_dir():
                inner = (one for one in sorted(path.rglob("*")) if one.is_file())
                self.files |= {str(place / one.relative_to(path).as_posix()): one for one in inner}
            else:
                self.files[str(place / path.name if is_folder else place)] = path
        return bool(found)

    def _find(self, source: str) -> list[Path]:
        """Return what a source names inside the context."""
        relative = source.removeprefix("./").strip("/")
        if ".." in PurePosixPath(relative).parts:
            return []
        if relative in ("", "."):
            return [self.context]
        return sorted(self.context.glob(relative))


def _split_copied(rest: str) -> list[str]:
    try:
        found = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
    except (ValueError, RecursionError):
        return []
    return [word for word in found if isinstance(word, str)] if isinstance(found, list) else []


def _join_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the instructions with the number of their first line."""
    held, began = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        began = began or number
        held += re.sub(r"\\$", " ", line)
        if not line.endswith("\\"):
            yield began, " ".join(held.split())
            held, began = "", 0
    if held:
        yield began, " ".join(held.split())
