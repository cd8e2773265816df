"""The viewer on a notebook server, whose proxy serves it below a path and with another host.

What this cannot show: HTTPS in front of the proxy, as JupyterHub has it. `server/test_access.py` of the plugin sends its headers.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from checked_page import Watch, open_context
from harness import environment
from made_up_run import RunWriter, make_groups
from playwright.sync_api import Browser, Page, expect
from viewer import Viewer, start_viewer
from viewer_pages import settle

from astuner.shared.processes import free_port

KEY = "key-of-the-notebook"
POST = """async () => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch("api/config/explain", { method: "POST", headers, body: "[]" });
    return { status: answer.status, error: (await answer.json()).error };
}"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Jupyter server, as JupyterHub starts it for a user."""
    home, port = tmp_path_factory.mktemp("home"), free_port()
    settings = {"ip": "127.0.0.1", "port": port, "base_url": "/user/me/", "open_browser": False, "allow_root": True}
    command = [sys.executable, "-m", "jupyter_server", *(f"--ServerApp.{key}={value}" for key, value in settings.items())]
    own = environment({"HOME": str(home), "JUPYTER_PLATFORM_DIRS": "0"})
    log = home / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, f"--IdentityProvider.token={KEY}"],
            cwd=home,
            env=own,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
        )
    address = f"http://127.0.0.1:{port}/user/me/"
    try:
        while True:
            try:
                urlopen(f"{address}api", timeout=60).close()
                break
            except OSError:
                assert process.poll() is None, log.read_text()
                time.sleep(0.1)
        yield address
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunWriter]:
    run = RunWriter(tmp_path / "launcher_record/marbles", planned=5)
    run.write_step(1, make_groups(1))
    yield run
    run.close("interrupted")


@pytest.fixture
def proxied(notebook: str, run: RunWriter, tmp_path: Path) -> Iterator[Viewer]:
    options = ("--public-url", f"{notebook}proxy/{{port}}/")
    with start_viewer(run.directory.path.parent, cache=tmp_path / "cache", options=options) as viewer:
        yield viewer


@pytest.fixture
def page(browser: Browser, watch: Watch, notebook: str) -> Iterator[Page]:
    with open_context(browser, watch) as window:
        page = window.new_page()
        page.goto(f"{notebook}api/status?token={KEY}")
        yield page


def test_the_pages_their_answers_and_their_events_come_through_the_proxy(page: Page, proxied: Viewer, run: RunWriter) -> None:
    page.goto(proxied.address)
    assert page.url.partition("#")[0] == proxied.address.partition("?")[0]
    assert {cookie["path"] for cookie in page.context.cookies() if cookie["name"].startswith("astuner")} == {
        proxied.address.removeprefix(proxied.origin).rpartition("/")[0]
    }
    row = settle(page).get_by_role("row").filter(has_text="marbles")
    expect(row).to_contain_text("1 / 5")

    run.write_step(2, make_groups(2))

    expect(row).to_contain_text("2 / 5")
    row.get_by_role("link", name="marbles").click()
    page.locator('a[href*="/g/train/2/"]').first.click()
    expect(settle(page).locator("main")).to_contain_text("Share")
    page.get_by_text("Share", exact=True).click()
    with page.expect_download() as download:
        page.get_by_text("HTML file").click()
    assert download.value.path().read_text(encoding="utf-8").startswith("<!doctype html>")


def test_what_the_page_posts_comes_through_the_proxy(page: Page, proxied: Viewer, watch: Watch) -> None:
    # To explain a YAML takes a minute on a busy machine, to refuse a list takes no time.
    watch.allow("400")
    page.goto(proxied.address)
    settle(page)

    found = page.evaluate(POST)

    assert found == {"status": 400, "error": "the body must be a JSON object"}
