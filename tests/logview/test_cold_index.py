"""Pages of a run whose episodes are not indexed yet, or that has none: they say so, and fill themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from checked_page import Watch, open_address, open_context
from held_index import HeldIndex
from made_up_run import RunWriter, make_groups
from playwright.sync_api import Browser, Locator, Page, expect
from viewer import Viewer, start_viewer
from viewer_pages import ask, list_pages, open_page

OPENED = "window.openedOnce = true"
"""A mark that a reload of the page would remove."""

EMPTY_PAGES = {
    "run": "No step has finished",
    "episodes": "No episode has been stored yet",
    "tasks": "No task has been played yet",
    "judge": "No episode has a reward",
}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunWriter]:
    """A run that has stored nothing."""
    run = RunWriter(tmp_path / "launcher_record/cold", planned=5)
    yield run
    run.close("interrupted")


@pytest.fixture
def held_index(run: RunWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldIndex]:
    """The index of the run after a step; it is empty."""
    run.write_step(1, make_groups(1))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    index = HeldIndex(run.directory.path)
    yield index
    index.release()


@pytest.fixture
def viewer(run: RunWriter, tmp_path: Path) -> Iterator[Viewer]:
    with start_viewer(run.directory.path.parent, cache=tmp_path / "cache") as viewer:
        yield viewer


@pytest.fixture
def page(browser: Browser, viewer: Viewer, watch: Watch) -> Iterator[Page]:
    with open_context(browser, watch, storage_state=open_address(browser, viewer)) as window:
        yield window.new_page()


@pytest.fixture
def name(page: Page, viewer: Viewer) -> str:
    """The id of the run."""
    return str(ask(page.context, viewer, "/api/runs")["runs"][0]["id"])


def open_marked(page: Page, viewer: Viewer, address: str) -> None:
    open_page(page, viewer, address)
    page.evaluate(OPENED)


def open_tabs(page: Page, viewer: Viewer, addresses: dict[str, str]) -> dict[str, Locator]:
    """Open pages next to each other, and return what each shows."""
    found = {}
    for kind, address in addresses.items():
        tab = page.context.new_page()
        open_marked(tab, viewer, address)
        found[kind] = tab.locator("main")
    return found


def is_still_open(page: Page) -> bool:
    return bool(page.evaluate("window.openedOnce === true"))


def test_the_list_of_episodes_fills_itself_as_they_are_indexed(
    held_index: HeldIndex, page: Page, viewer: Viewer, name: str
) -> None:
    open_marked(page, viewer, f"/r/{name}/episodes")
    status = page.locator("main").get_by_role("status")
    rows = page.locator(f'main a[href^="#/r/{name}/e/"]')
    expect(page.get_by_text("No episode is indexed yet")).to_be_visible()
    expect(page.get_by_text("They appear here as they are indexed.")).to_be_visible()
    expect(status).to_contain_text(re.compile(r"^\s*0\s% of the store is indexed"))

    held_index.grow()

    expect(rows).to_have_count(1)
    expect(status).to_contain_text(re.compile(r"[1-9]\d?\s% of the store is indexed.*1 episode$"))

    held_index.release()

    expect(status).to_contain_text("12 episodes")
    expect(status).not_to_contain_text("indexed")
    assert is_still_open(page)


def test_a_filter_of_a_cold_index_does_not_say_that_nothing_matches(
    held_index: HeldIndex, page: Page, viewer: Viewer, name: str
) -> None:
    open_marked(page, viewer, f"/r/{name}/episodes?filter=agent:critic")
    status = page.locator("main").get_by_role("status")
    expect(status).to_contain_text(re.compile(r"^\s*0\s% of the store is indexed"))
    expect(page.get_by_text("No episode matches")).to_have_count(0)

    held_index.release()

    expect(status).to_contain_text("4 episodes")


def test_the_list_of_runs_shows_how_far_the_index_is(held_index: HeldIndex, page: Page, viewer: Viewer, name: str) -> None:
    open_marked(page, viewer, "/")
    row = page.get_by_role("row").filter(has_text="cold")
    expect(row).to_contain_text("indexing 0 %")

    held_index.release()

    expect(row).to_contain_text("3 failed")
    expect(row).not_to_contain_text("indexing")
    assert is_still_open(page)


def test_pages_of_the_run_fill_themselves(held_index: HeldIndex, page: Page, viewer: Viewer, name: str) -> None:
    kinds = {"tasks": "prices", "judge": "format", "run": "Lowest to highest"}
    pages = open_tabs(page, viewer, {kind: list_pages(name, step=1, task="prices")[kind] for kind in kinds})
    for kind, text in kinds.items():
        expect(pages[kind]).to_contain_text("indexed")
        expect(pages[kind]).not_to_contain_text(text)
        expect(pages[kind]).not_to_contain_text("No task matches")

    held_index.release()

    for kind, text in kinds.items():
        expect(pages[kind]).to_contain_text(text)
        expect(pages[kind]).not_to_contain_text("indexed")
        assert is_still_open(pages[kind].page)
    expect(pages["run"]).to_contain_text("train: 12 episodes in 1 step;")
    expect(pages["run"].get_by_role("combobox", name="Step").get_by_role("option")).to_have_text(["All steps", "Step 1"])


def test_pages_that_are_not_indexed_yet_say_so_and_come(
    held_index: HeldIndex, page: Page, viewer: Viewer, name: str, watch: Watch
) -> None:
    watch.allow("404")
    kinds = {"group": "prices", "episode": "prices", "tokens": "call 1", "task": "prices"}
    pages = {}
    for kind in kinds:
        tab = page.context.new_page()
        tab.goto(viewer.link(list_pages(name, step=1, task="prices")[kind]))
        expect(tab.get_by_role("alert").first).to_contain_text("the episodes are being read (0%)")
        tab.evaluate(OPENED)
        pages[kind] = tab.locator("main")

    held_index.release()

    for kind, text in kinds.items():
        expect(pages[kind]).to_contain_text(text)
        expect(pages[kind].get_by_role("alert")).to_have_count(0)
        assert is_still_open(pages[kind].page)


def test_a_run_without_episodes_says_that_there_is_nothing_yet(run: RunWriter, page: Page, viewer: Viewer, name: str) -> None:
    pages = open_tabs(page, viewer, {kind: list_pages(name, step=1, task="")[kind] for kind in EMPTY_PAGES})
    for kind, text in EMPTY_PAGES.items():
        expect(pages[kind]).to_contain_text(text)
        expect(pages[kind].get_by_role("alert")).to_have_count(0)

    run.write_step(1, make_groups(1))

    for kind, text in EMPTY_PAGES.items():
        expect(pages[kind]).not_to_contain_text(text)
        expect(pages[kind]).to_contain_text("format" if kind == "judge" else "prices")
        assert is_still_open(pages[kind].page)


def test_the_list_of_runs_has_a_run_without_episodes(run: RunWriter, page: Page, viewer: Viewer) -> None:
    open_marked(page, viewer, "/")
    row = page.get_by_role("row").filter(has_text="cold")
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("0 / 5")
    expect(row).not_to_contain_text("indexing")

    run.write_step(1, make_groups(1))

    expect(row).to_contain_text("3 failed")


def test_a_directory_without_runs_says_where_it_looked(browser: Browser, watch: Watch, tmp_path: Path) -> None:
    directory = tmp_path / "launcher_record"
    directory.mkdir()
    with (
        start_viewer(directory, cache=tmp_path / "cache") as viewer,
        open_context(browser, watch, storage_state=open_address(browser, viewer)) as window,
    ):
        page = open_page(window.new_page(), viewer, "/")
        expect(page.get_by_text("No runs here yet")).to_be_visible()
        expect(page.locator("main")).to_contain_text(str(directory))

        run = RunWriter(directory / "first")
        try:
            expect(page.get_by_role("link", name="first", exact=True)).to_be_visible()
        finally:
            run.close()
