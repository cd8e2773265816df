"""The modules of a page are asked for together: the server lists exactly those that the browser loads for it."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page
from viewer import Viewer
from viewer_pages import find_run, list_pages, open_page

from astuner_logview.server.static_answers import MAIN, list_modules, list_page_modules

LOADED = """() => performance.getEntriesByType("resource").map((entry) => new URL(entry.name).pathname)
    .filter((path) => path.endsWith(".js"))"""
SHELL = list_modules(MAIN)
PAGES = list_page_modules(SHELL)
WORST = "worst"
"""Leads on to the group."""


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_list_of_a_page_has_all_its_modules(page: Page, window: BrowserContext, viewer: Viewer, name: str) -> None:
    run, other = find_run(window, viewer, "marbles"), find_run(window, viewer, "pebbles")
    addresses = {**list_pages(run, step=2, task="prices", other=other), WORST: f"/r/{run}/s/2/worst"}

    open_page(page, viewer, addresses[name])

    listed = SHELL | set(PAGES[name]) | (set(PAGES["group"]) if name == WORST else set())
    assert {path.split("/", 3)[3] for path in page.evaluate(LOADED)} == listed
