"""The files of the package, and nothing else of the machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from astuner_logview.server.static_answers import compute_version
from astuner_logview.server.static_files import content_type, find_static, static_root


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/static/app/main.js", "text/javascript; charset=utf-8"),
        ("/static/vendor/uplot.css", "text/css; charset=utf-8"),
        ("/static/icon.svg", "image/svg+xml"),
        ("/static/vendor/LICENSE-preact.txt", "text/plain; charset=utf-8"),
    ],
)
def test_a_file_has_its_type_and_is_asked_for_again(server: Any, path: str, kind: str) -> None:
    with server.open() as client:
        answer = client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
        assert answer.headers["cache-control"] == "no-cache"
        again = client.get(path, headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert client.get(path, headers={"if-none-match": '"other"'}).content == answer.content


def test_the_files_that_the_index_names_are_kept_until_the_package_changes(server: Any) -> None:
    with server.open() as client:
        index = client.get("/").text
        named = re.findall(r'(?:href|src)="(static/[^"]+)"', index)
        assert {path.split("/")[1] for path in named} == {f"v-{compute_version()}"}
        answers = [client.get(f"/{path}") for path in named]
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.headers["cache-control"] for answer in answers} == {"private, max-age=31536000, immutable"}
    # The script, what it imports, and what these import.
    assert {"app/main.js", "app/html.js", "vendor/preact.js"} <= {path.split("/", 2)[2] for path in named}


def test_a_head_has_no_body(server: Any) -> None:
    with server.open() as client:
        answer = client.head("/static/icon.svg")
        assert (answer.status_code, answer.content) == (200, b"")
        assert int(answer.headers["content-length"]) > 0


@pytest.mark.parametrize(
    "path",
    [
        "/static/../refusals.py",
        "/static/app/../../show_command.py",
        "/static/%2e%2e/show_command.py",
        "/static/..%2fshow_command.py",
        "/static/app/..%5c..%5cshow_command.py",
        "/static//etc/passwd",
        "/static/%2fetc/passwd",
        "//etc/passwd",
        "/../../../etc/passwd",
        "/static/app",
        "/static/app/",
        "/static/",
        "/static",
        "/static/index.html/",
        f"/static/v-{'0' * 32}/../refusals.py",
        f"/static/v-{'0' * 32}/",
        "/static/v-0/app/main.js",
        "/static/app/main.js%00.txt",
        "/static/app/main.js%0a",
        "/index.html",
        "/server/closed.html",
        "/static/.hidden.js",
        "/static/vendor/preact.d.ts",
    ],
)
def test_other_paths_are_none(server: Any, path: str) -> None:
    with server.open() as client:
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    answer = server.send(head.encode())
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"root:" not in answer


def test_every_file_of_the_pages_has_a_type_or_is_not_served() -> None:
    root = Path(str(static_root()))
    names = [file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file()]
    assert {"index.html", "app/main.js"} <= set(names)
    assert all((find_static(name) is not None) == (content_type(name) is not None) for name in names)
