"""A run that is being written while its pages are open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from checked_page import Watch, open_address, open_context
from made_up_run import RunWriter, make_groups, price_group
from playwright.sync_api import Browser, Page, expect
from viewer import Viewer, start_viewer
from viewer_pages import find_run, open_page


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[RunWriter]:
    """A run that has finished its first step and goes on."""
    run = RunWriter(tmp_path / "launcher_record/growing", planned=5)
    run.write_validation(0, [price_group(0, split="validation")])
    run.write_step(1, make_groups(1))
    yield run
    run.close("interrupted")


@pytest.fixture
def live(growing: RunWriter, tmp_path: Path) -> Iterator[Viewer]:
    with start_viewer(growing.directory.path.parent, cache=tmp_path / "cache") as viewer:
        yield viewer


@pytest.fixture
def live_page(browser: Browser, live: Viewer, watch: Watch) -> Iterator[Page]:
    with open_context(browser, watch, storage_state=open_address(browser, live)) as window:
        yield window.new_page()


def test_a_step_shows_up_on_the_page_of_the_runs(live_page: Page, live: Viewer, growing: RunWriter) -> None:
    open_page(live_page, live, "/")
    row = live_page.get_by_role("row").filter(has_text="growing")
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("1 / 5")

    growing.write_step(2, make_groups(2))

    expect(row).to_contain_text("2 / 5")


def test_a_step_shows_up_on_the_page_of_its_run(live_page: Page, live: Viewer, growing: RunWriter) -> None:
    run = find_run(live_page.context, live, "growing")
    open_page(live_page, live, f"/r/{run}")
    link = live_page.locator(f'a[href^="#/r/{run}/g/train/2/"]')
    expect(link).to_have_count(0)

    growing.write_step(2, make_groups(2))

    expect(link.first).to_be_visible()


def test_episodes_show_up_before_their_step_has_ended(live_page: Page, live: Viewer, growing: RunWriter) -> None:
    run = find_run(live_page.context, live, "growing")
    open_page(live_page, live, f"/r/{run}/episodes")
    link = live_page.locator(f'a[href^="#/r/{run}/e/train%2F2%2Fprices%2F0"]')

    growing.write_groups([price_group(2)])

    expect(link.first).to_be_visible()


def test_the_newest_failure_can_be_followed(live_page: Page, live: Viewer, growing: RunWriter) -> None:
    run = find_run(live_page.context, live, "growing")
    open_page(live_page, live, f"/r/{run}")
    live_page.get_by_role("button", name="Follow failures").click()

    growing.write_step(2, make_groups(2))

    live_page.wait_for_url(f"**/#/r/{run}/e/train%2F2%2F100*")
    expect(live_page.locator("main")).to_contain_text("KeyError: 'box'")


def test_an_open_page_says_when_the_viewer_has_ended(live_page: Page, live: Viewer, watch: Watch) -> None:
    watch.allow("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET")
    open_page(live_page, live, "/")

    live.process.terminate()
    live.process.wait(timeout=30)

    expect(live_page.get_by_text("Connection lost")).to_be_visible()


def test_a_run_that_begins_shows_up(live_page: Page, live: Viewer, growing: RunWriter) -> None:
    open_page(live_page, live, "/")

    later = RunWriter(growing.directory.path.with_name("later"))
    try:
        expect(live_page.get_by_role("row").filter(has_text="later")).to_be_visible()
    finally:
        later.close()
