"""A hub of Hugging Face on 127.0.0.1 that serves directories as repositories of data sets, by the protocol of the real one.

Run as a program it serves its only argument, a directory `{owner}/{name}/{revision}/…`, prints its address, and lives until its
input ends.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit


class Hub(ThreadingHTTPServer):
    """Each repository is a directory of revisions; `main` is one of them."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """Answers what `huggingface_hub` and `datasets` ask for."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())

    def log_message(self, *_: object) -> None:
        return

    def _answer(self, body: str = "") -> None:
        path = unquote(urlsplit(self.path).path)
        if found := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._file(*found.groups())
        if found := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/(revision|tree|paths-info)/([^/]+)(/.*)?)?", path):
            repository, what, revision, below = found.groups()
            home = self._home(repository, revision or "main")
            if home is None:
                return None
            if what == "tree":
                return self._json(_tree(home, (below or "").strip("/"), "recursive=true" in self.path.lower()))
            if what == "paths-info":
                paths = json.loads(body)["paths"] if body.startswith("{") else parse_qs(body)["paths"]
                return self._json([_described(home, home / path) for path in paths if (home / path).exists()])
            files = [{"rfilename": str(file.relative_to(home))} for file in sorted(home.rglob("*")) if file.is_file()]
            about = {"id": repository, "sha": _commit(home), "siblings": files, "private": False, "gated": False}
            return self._json({**about, "disabled": False, "tags": [], "downloads": 0, "likes": 0, "lastModified": None})
        return self._send(404, b"")

    def _home(self, repository: str, revision: str) -> Path | None:
        revisions = self.server.root / repository
        if not revisions.is_dir():
            self._send(404, b"", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
            return None
        for home in revisions.iterdir():
            if revision in (home.name, _commit(home)):
                return home
        self._send(404, b"", {"X-Error-Code": "RevisionNotFound", "X-Error-Message": f"Invalid rev id: {revision}"})
        return None

    def _file(self, repository: str, revision: str, name: str) -> None:
        home = self._home(repository, revision)
        if home is None:
            return None
        if not (home / name).is_file():
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": _commit(home)})
        content = (home / name).read_bytes()
        headers = {"ETag": f'"{_digest(content)}"', "X-Repo-Commit": _commit(home), "Accept-Ranges": "bytes"}
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if part is None:
            return self._send(200, content, headers)
        first, last = int(part[1]), min(int(part[2] or len(content)), len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return self._send(206, content[first : last + 1], headers)

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _digest(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


def _commit(home: Path) -> str:
    return _digest(str(home).encode())


def _described(home: Path, path: Path) -> dict[str, object]:
    about = {"path": str(path.relative_to(home)), "oid": _digest(str(path).encode())}
    return {**about, "type": "directory", "size": 0} if path.is_dir() else {**about, "type": "file", "size": path.stat().st_size}


def _tree(home: Path, below: str, recursive: bool) -> list[dict[str, object]]:
    start = home / below
    found = sorted(start.rglob("*") if recursive else start.iterdir()) if start.is_dir() else []
    return [_described(home, path) for path in found]


if __name__ == "__main__":
    hub = Hub(Path(sys.argv[1]))
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    print(hub.url, flush=True)
    sys.stdin.read()
