"""The viewer as a user starts it: a process that prints its address."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from attrs import frozen
from harness import environment

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\S*")


@frozen(kw_only=True)
class Viewer:
    """A viewer that runs."""

    address: str
    """With the token that becomes a cookie."""
    process: subprocess.Popen[str]

    @property
    def origin(self) -> str:
        parts = urlsplit(self.address)
        return f"{parts.scheme}://{parts.netloc}"

    def link(self, page: str) -> str:
        """The address of a page, as `#/r/…`, once the cookie is there."""
        return f"{self.origin}/#{page}"


@contextmanager
def start_viewer(*directories: Path, cache: Path, options: Sequence[str] = ()) -> Iterator[Viewer]:
    """Start `astuner logview` over these directories, with its index in `cache`."""
    command = [sys.executable, "-m", "astuner", "logview", *map(str, directories), "--no-open", *options]
    process = subprocess.Popen(
        command,
        env=environment({"XDG_CACHE_HOME": str(cache)}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield Viewer(address=_read_address(process), process=process)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def quoted(name: str) -> str:
    """A name as it stands in an address of a page."""
    return quote(name, safe="")


def _read_address(process: subprocess.Popen[str]) -> str:
    seen = []
    assert process.stdout is not None
    for line in process.stdout:
        seen.append(line)
        if found := ADDRESS.search(line):
            return found[0]
    raise AssertionError("the viewer has not started:\n" + "".join(seen))
