"""A run that is being written while its pages are open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from checked_page import Watch, open_address, open_context
from made_up_run import RunWriter, make_groups, price_group
from playwright.sync_api import Browser, Page, StorageState, expect
from viewer import Viewer, start_viewer
from viewer_pages import ask, find_run, open_page


@pytest.fixture(scope="module")
def live_record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which each test begins a run."""
    record = tmp_path_factory.mktemp("live") / "launcher_record"
    record.mkdir()
    return record


@pytest.fixture(scope="module")
def live(live_record: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    with start_viewer(live_record, cache=tmp_path_factory.mktemp("cache")) as viewer:
        yield viewer


@pytest.fixture(scope="module")
def live_cookie(browser: Browser, live: Viewer) -> StorageState:
    return open_address(browser, live)


@pytest.fixture
def live_page(browser: Browser, live_cookie: StorageState, watch: Watch) -> Iterator[Page]:
    with open_context(browser, watch, storage_state=live_cookie) as window:
        yield window.new_page()


@pytest.fixture
def growing(live_record: Path, request: pytest.FixtureRequest) -> Iterator[RunWriter]:
    """A run that has finished its first step and goes on."""
    run = RunWriter(live_record / request.node.name, planned=5)
    run.write_validation(0, [price_group(0, split="validation")])
    run.write_step(1, make_groups(1))
    yield run
    run.close("interrupted")


@pytest.fixture
def run(growing: RunWriter, live_page: Page, live: Viewer) -> str:
    """The id of that run."""
    name = growing.directory.path.name
    while name not in [run["name"] for run in ask(live_page.context, live, "/api/runs")["runs"]]:
        time.sleep(0.1)
    return find_run(live_page.context, live, name)


def test_a_step_shows_up_on_the_page_of_the_runs(live_page: Page, live: Viewer, growing: RunWriter) -> None:
    open_page(live_page, live, "/")
    row = live_page.get_by_role("row").filter(has_text=growing.directory.path.name)
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("1 / 5")

    growing.write_step(2, make_groups(2))

    expect(row).to_contain_text("2 / 5")


def test_a_step_shows_up_on_the_page_of_its_run(live_page: Page, live: Viewer, growing: RunWriter, run: str) -> None:
    open_page(live_page, live, f"/r/{run}")
    link = live_page.locator(f'a[href^="#/r/{run}/g/train/2/"]')
    expect(link).to_have_count(0)

    growing.write_step(2, make_groups(2))

    expect(link.first).to_be_visible()


def test_episodes_show_up_before_their_step_has_ended(live_page: Page, live: Viewer, growing: RunWriter, run: str) -> None:
    open_page(live_page, live, f"/r/{run}/episodes")
    link = live_page.locator(f'a[href^="#/r/{run}/e/train%2F2%2Fprices%2F0"]')

    growing.write_groups([price_group(2)])

    expect(link.first).to_be_visible()


def test_the_newest_failure_can_be_followed(live_page: Page, live: Viewer, growing: RunWriter, run: str) -> None:
    open_page(live_page, live, f"/r/{run}")
    live_page.get_by_role("button", name="Follow failures").click()

    growing.write_step(2, make_groups(2))

    live_page.wait_for_url(f"**/#/r/{run}/e/train%2F2%2F100*")
    expect(live_page.locator("main")).to_contain_text("KeyError: 'box'")


def test_a_run_that_begins_shows_up(live_page: Page, live: Viewer, live_record: Path) -> None:
    open_page(live_page, live, "/")

    later = RunWriter(live_record / "later")
    try:
        expect(live_page.get_by_role("row").filter(has_text="later")).to_be_visible()
    finally:
        later.close()


def test_an_open_page_says_when_the_viewer_has_ended(browser: Browser, live_record: Path, watch: Watch, tmp_path: Path) -> None:
    watch.allow("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET")
    with (
        start_viewer(live_record, cache=tmp_path) as mortal,
        open_context(browser, watch, storage_state=open_address(browser, mortal)) as window,
    ):
        page = open_page(window.new_page(), mortal, "/")

        mortal.process.terminate()
        mortal.process.wait(timeout=30)

        expect(page.get_by_text("Connection lost")).to_be_visible()
