"""The addresses of the pages of a record, and waiting until a page has its answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from playwright.sync_api import BrowserContext, Page
from viewer import Viewer, quoted

SLOW_MS = 60_000
"""The schema of the configuration takes seconds to make, on a busy machine many."""

SETTLED = """() => document.querySelector("main")?.dataset.address === location.hash
    && document.querySelector("main h1")?.textContent.trim()
    && !document.querySelector(".loading-bar, .empty[role=status], [aria-busy=true]")"""


def find_run(window: BrowserContext, viewer: Viewer, name: str) -> str:
    """The id of a run by its name, once all of it is indexed."""
    while True:
        run = next(run for run in ask(window, viewer, "/api/runs")["runs"] if run["name"] == name)
        if run["indexed"] in (None, 1):
            return str(run["id"])
        time.sleep(0.1)


def ask(window: BrowserContext, viewer: Viewer, address: str) -> Any:
    """An answer of the server, as a page gets it."""
    answer = window.request.get(viewer.origin + address)
    assert answer.ok, answer.text()
    return answer.json()


def open_page(page: Page, viewer: Viewer, address: str) -> Page:
    """Open a page by its address, and wait until it shows its answers."""
    page.goto(viewer.link(address))
    settle(page)
    if "/t/" in address:
        # What is known of the episode comes after its tokens.
        page.wait_for_selector(".token-bar strong", timeout=SLOW_MS)
    return page


def settle(page: Page) -> Page:
    """Wait until the page shows its answers."""
    page.wait_for_function(SETTLED, timeout=SLOW_MS)
    return page


def list_pages(run: str, *, step: int, task: str, repeat: int = 0, other: str = "") -> Mapping[str, str]:
    """The address of each kind of page, by its name."""
    episode = quoted(f"train/{step}/{task}/{repeat}")
    return {
        "runs": "/",
        "compare": f"/compare?run={run}&run={other or run}",
        "run": f"/r/{run}",
        "episodes": f"/r/{run}/episodes",
        "group": f"/r/{run}/g/train/{step}/{quoted(task)}",
        "episode": f"/r/{run}/e/{episode}",
        "tokens": f"/r/{run}/t/{episode}",
        "task": f"/r/{run}/task/{quoted(task)}",
        "tasks": f"/r/{run}/tasks",
        "judge": f"/r/{run}/judge",
        "why": f"/r/{run}/why",
        "configuration": "/configuration",
    }
