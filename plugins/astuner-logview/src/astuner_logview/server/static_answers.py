"""Answers with the files of the pages.

The index names the other files below `static/v-DIGEST/`, with a digest of them all: the browser keeps them and asks for none
again, until the package changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

from astuner_logview.export.modules import Modules
from astuner_logview.server.refusals import Refusal
from astuner_logview.server.static_files import content_type, find_static, static_root

MAIN = "app/main.js"
PAGES = "app/pages"
KEPT = "private, max-age=31536000, immutable"
ASKED = "no-cache"
_PATH = re.compile(r"/static/(v-[0-9a-f]{32}/)?(.*)", re.DOTALL)


def answer_static(request: Request) -> Response:
    """Answer with a file of the package, or 304 if the browser has it already; raises `Refusal` for other paths."""
    path: str = request.scope["path"]
    if path == "/":
        return _answer(request, write_index().encode(), "index.html", ASKED)
    given = _PATH.fullmatch(path)
    found = find_static(given[2]) if given else None
    if given is None or found is None:
        raise Refusal(f"there is no page {path[:200]!r}", "open the address without a path", status=404)
    return _answer(request, found.read_bytes(), found.name, KEPT if given[1] else ASKED)


def write_index() -> str:
    """Return the index; it is written again when a file of the pages has changed."""
    return _write_index(compute_version())


@lru_cache(maxsize=1)
def _write_index(version: str) -> str:
    """Return the index, with the version of the files in their addresses and the modules that are needed at once.

    Modules are asked for all at the same time, not each when the one that imports it has been read: those of the shell here,
    those of a page when it is first opened. `app/preload.js` reads which these are.
    """
    text = (static_root() / "index.html").read_text(encoding="utf-8")
    shell = list_modules(MAIN)
    preloads = "".join(f'  <link rel="modulepreload" href="static/{path}">\n' for path in sorted(shell))
    pages = json.dumps(list_page_modules(shell), separators=(",", ":"))
    data = f'  <script type="application/json" id="page-modules">{pages}</script>\n'
    return text.replace("</head>", f"{preloads}{data}</head>").replace('"static/', f'"static/v-{version}/')


def list_modules(path: str) -> set[str]:
    """Return a module and all that it imports, without those that are loaded when they are needed."""
    modules = Modules(pages=frozenset())
    modules.add(path)
    return set(modules.sources)


def list_page_modules(shell: set[str]) -> dict[str, list[str]]:
    """Return the modules of each page, by the page's name; those of the shell are left out."""
    pages = [entry.name.removesuffix(".js") for entry in (static_root() / PAGES).iterdir()]
    found = {page: list_modules(f"{PAGES}/{page}.js") - shell for page in pages}
    return {page: sorted(modules) for page, modules in sorted(found.items()) if modules}


def compute_version() -> str:
    """Return a digest of all files of the pages and their names."""
    digest = blake2b(digest_size=16)
    for path, file in _walk(static_root(), ""):
        content = file.read_bytes()
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif content_type(entry.name) is not None:
            yield prefix + entry.name, entry


def _answer(request: Request, body: bytes, name: str, caching: str) -> Response:
    tag = f'"{blake2b(body, digest_size=16).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": caching, "Content-Type": content_type(name) or ""}
    if tag in [given.strip().removeprefix("W/") for given in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers)
