"""The documentation site, built once as people build it, behind a plain web server, and a browser that looks at it."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from browser_tools import install_browser_tools
from checked_page import launch
from harness import REPOSITORY
from playwright.sync_api import Browser, sync_playwright


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves a folder, and logs nothing."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass

    def log_error(self, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site. Not to be written to."""
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, str(REPOSITORY / "docs" / "build_site.py"), str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder / "site"


@pytest.fixture(scope="session")
def address(built: Path) -> Iterator[str]:
    """Where a plain web server has it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(built)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    tools = install_browser_tools(Path(os.environ.get("ASTUNER_BROWSER_TOOLS") or tmp_path_factory.mktemp("browser")))
    with sync_playwright() as playwright:
        browser = launch(playwright, tools)
        yield browser
        browser.close()
