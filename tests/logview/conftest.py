from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from broken_runs import write_directory_of_directories, write_foreign_directory, write_half_deleted_runs, write_torn_run
from browser_tools import BrowserTools, install_browser_tools
from checked_page import Watch, launch, open_address, open_context
from hostile_run import write_hostile_run
from long_run import write_long_run
from made_up_run import write_made_up_run, write_replay
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, StorageState, sync_playwright
from viewer import Viewer, start_viewer


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> BrowserTools:
    """What npm brings: installed by tox for all, or here."""
    return install_browser_tools(Path(os.environ.get("ASTUNER_BROWSER_TOOLS") or tmp_path_factory.mktemp("browser")))


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as found:
        yield found


@pytest.fixture(scope="session")
def browser(playwright: Playwright, tools: BrowserTools) -> Iterator[Browser]:
    browser = launch(playwright, tools)
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `launcher_record` with every kind of run. Not to be written to."""
    record = tmp_path_factory.mktemp("runs") / "launcher_record"
    whole = record / "marbles"
    write_made_up_run(whole)
    write_torn_run(whole, record / "torn")
    write_half_deleted_runs(whole, record / "half")
    write_replay(whole)
    write_made_up_run(record / "pebbles", lr=0.01, luck=-1)
    write_foreign_directory(record / "foreign")
    write_directory_of_directories(record / "of directories")
    write_hostile_run(record)
    write_long_run(record)
    return record


@pytest.fixture(scope="session")
def viewer(record: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """The viewer of that record."""
    with start_viewer(record, cache=tmp_path_factory.mktemp("cache")) as viewer:
        yield viewer


@pytest.fixture(scope="session")
def cookie(browser: Browser, viewer: Viewer) -> StorageState:
    """What a browser keeps that has opened the viewer's address, which works once."""
    return open_address(browser, viewer)


@pytest.fixture
def watch() -> Watch:
    """What pages do that they must not."""
    return Watch()


@pytest.fixture
def window(browser: Browser, cookie: StorageState, watch: Watch) -> Iterator[BrowserContext]:
    """A browser window that may open every page of the viewer."""
    with open_context(browser, watch, storage_state=cookie) as context:
        yield context


@pytest.fixture
def page(window: BrowserContext) -> Page:
    """An empty page in that window."""
    return window.new_page()
