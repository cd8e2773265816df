"""The page's modules in one file: each becomes a `data:` address, and an import map gives it a name."""

from __future__ import annotations

import base64
import posixpath
import re
from collections.abc import Mapping

from attrs import define, field

from astuner_logview.errors import Missing
from astuner_logview.server.static_files import find_static

PREFIX = "viewer/"
"""Before a module's path, in its name: a name that begins with `./` or `/` would be relative to the file."""
STATIC = re.compile(r"""(\b(?:import|export)\b(?:[\s\w$*{},]*?\bfrom)?\s*)(["'])(\.{1,2}/[^"'\n]+)\2""")
DYNAMIC = re.compile(r"""(\bimport\(\s*)(["'])(\.{1,2}/[^"'\n]+)\2""")


@define(eq=False)
class Modules:
    """The modules that one needs, by path; of pages that are loaded when they are opened, those that are wanted."""

    pages: frozenset[str]
    sources: dict[str, str] = field(factory=dict, init=False)
    """With names in place of relative addresses."""

    def add(self, path: str) -> None:
        """Add a module and all that it needs; raises `Missing` for one that the package does not have."""
        pending = [path]
        while pending:
            current = pending.pop()
            if current in self.sources:
                continue
            text, needed = rewrite(read_static(current), current, self.pages)
            self.sources[current] = text
            pending += needed

    def make_import_map(self) -> Mapping[str, str]:
        """Return the addresses of the modules by name."""
        return {name_module(path): encode_module(text) for path, text in sorted(self.sources.items())}


def rewrite(text: str, path: str, pages: frozenset[str]) -> tuple[str, list[str]]:
    """Return the text of a module with names in its imports, and the paths of the modules that it needs."""
    needed: list[str] = []

    def name(found: re.Match[str], wanted: bool) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[3]))
        if not wanted and target not in pages:
            return found[0]
        needed.append(target)
        return f"{found[1]}{found[2]}{name_module(target)}{found[2]}"

    text = STATIC.sub(lambda found: name(found, True), text)
    return DYNAMIC.sub(lambda found: name(found, False), text), needed


def name_module(path: str) -> str:
    """Return the name by which other modules import one."""
    return PREFIX + path


def encode_module(text: str) -> str:
    """Return a module as an address that holds it."""
    return f"data:text/javascript;base64,{base64.b64encode(text.encode()).decode()}"


def read_static(path: str) -> str:
    """Return a text file of the pages; raises `Missing`."""
    found = find_static(path)
    if found is None:
        raise Missing(f"the package has no file {path!r}", "install astuner-logview again")
    return found.read_text(encoding="utf-8")
