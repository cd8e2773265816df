"""Torn, half deleted and foreign directories: what can be shown is shown, and what cannot is said."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from viewer import Viewer
from viewer_pages import ask, find_run, list_pages, open_page

BROKEN = ("torn", "only episodes", "only metrics", "only a record", "foreign")


def test_every_directory_is_in_the_list(page: Page, viewer: Viewer) -> None:
    open_page(page, viewer, "/")

    for name in (*BROKEN, "marbles", "pebbles"):
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible()


def test_a_directory_in_the_place_of_a_file_is_named_above_the_list(page: Page, viewer: Viewer) -> None:
    open_page(page, viewer, "/")

    expect(page.locator("main")).to_contain_text("of directories/config.yaml: is a directory, and not a file of the run")


@pytest.mark.parametrize("name", BROKEN)
def test_its_pages_open(page: Page, window: BrowserContext, viewer: Viewer, name: str) -> None:
    pages = list_pages(find_run(window, viewer, name), step=1, task="prices")
    for kind in ("run", "episodes", "tasks", "judge"):
        open_page(page, viewer, pages[kind])

        expect(page.get_by_role("alert"), kind).to_have_count(0)


def test_damaged_lines_are_named_and_the_rest_is_shown(page: Page, window: BrowserContext, viewer: Viewer) -> None:
    run = find_run(window, viewer, "torn")
    open_page(page, viewer, f"/r/{run}/episodes")

    whole = ask(window, viewer, f"/api/runs/{find_run(window, viewer, 'marbles')}/episodes")["total"]
    left = ask(window, viewer, f"/api/runs/{run}/episodes")["total"]
    assert 0 < left < whole
    expect(page.get_by_text("train.jsonl").first).to_be_visible()


def test_episodes_without_a_record_are_read(page: Page, window: BrowserContext, viewer: Viewer) -> None:
    run = find_run(window, viewer, "only episodes")
    open_page(page, viewer, list_pages(run, step=2, task="prices")["episode"])

    expect(page.locator("main")).to_contain_text("The boxes cost 84.")


def test_metrics_without_episodes_have_their_curves(page: Page, window: BrowserContext, viewer: Viewer) -> None:
    open_page(page, viewer, f"/r/{find_run(window, viewer, 'only metrics')}")

    expect(page.get_by_role("heading", name="reward/mean", exact=True)).to_be_visible()


def test_a_foreign_directory_says_what_cannot_be_read(page: Page, window: BrowserContext, viewer: Viewer) -> None:
    open_page(page, viewer, f"/r/{find_run(window, viewer, 'foreign')}")

    expect(page.locator("main")).to_contain_text("run.json")
    expect(page.locator("main")).to_contain_text("damaged")
