"""Files to keep and to send: they open from disk, offline, and show what the live page shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from checked_page import Watch, open_context
from hostile_run import RUN_NAME, TASK_IDS
from made_up_run import DAMAGED, DEBATE, PRICES
from playwright.sync_api import Browser, BrowserContext, Page
from viewer import Viewer, quoted
from viewer_pages import find_run, list_pages, open_page, settle

TEXT = """() => [...document.querySelectorAll("main [data-part], main article, main section, main table, main .turn")]
    .map((one) => one.textContent.replace(/\\s+/g, " ").trim())"""

CASES = [("marbles", 2, task.task_id) for task in (PRICES, DEBATE, DAMAGED)]
CASES += [(RUN_NAME, 1, TASK_IDS[2]), (RUN_NAME, 1, TASK_IDS[4])]


def export(window: BrowserContext, viewer: Viewer, folder: Path, name: str, query: str) -> Path:
    answer = window.request.get(f"{viewer.origin}/api/export/{name}?{query}")
    assert answer.ok, answer.text()
    assert answer.headers["content-disposition"].startswith("attachment")
    path = folder / name
    path.write_bytes(answer.body())
    return path


def query_of(run: str, kind: str, step: int, task: str) -> str:
    if kind == "group":
        return f"run={run}&split=train&step={step}&task={quoted(task)}"
    return f"run={run}&id={quoted(f'train/{step}/{task}/0')}"


@pytest.mark.parametrize(("name", "step", "task"), CASES)
@pytest.mark.parametrize("kind", ["group", "episode"])
def test_a_file_shows_the_text_of_the_live_page(
    browser: Browser,
    window: BrowserContext,
    viewer: Viewer,
    watch: Watch,
    tmp_path: Path,
    kind: str,
    name: str,
    step: int,
    task: str,
) -> None:
    run = find_run(window, viewer, name)
    path = export(window, viewer, tmp_path, f"{kind}.html", query_of(run, kind, step, task))
    live = open_page(window.new_page(), viewer, list_pages(run, step=step, task=task)[kind]).evaluate(TEXT)

    with open_context(browser, watch, offline=True) as alone:
        page = alone.new_page()
        page.goto(path.as_uri())
        settle(page)

        assert live != []
        assert page.evaluate(TEXT) == live


def test_a_file_has_no_way_out_of_itself(
    browser: Browser, window: BrowserContext, viewer: Viewer, watch: Watch, tmp_path: Path
) -> None:
    run = find_run(window, viewer, "marbles")
    path = export(window, viewer, tmp_path, "group.html", query_of(run, "group", 2, "prices"))

    with open_context(browser, watch, offline=True) as alone:
        page = alone.new_page()
        page.goto(path.as_uri())
        settle(page)
        links = page.locator("a[href]").evaluate_all("(found) => found.map((one) => one.getAttribute('href'))")

        assert [link for link in links if not link.startswith("#")] == []


@pytest.mark.parametrize("kind", ["group", "episode"])
def test_markdown_has_the_task_and_every_answer(window: BrowserContext, viewer: Viewer, tmp_path: Path, kind: str) -> None:
    run = find_run(window, viewer, "marbles")

    text = export(window, viewer, tmp_path, f"{kind}.md", query_of(run, kind, 2, "prices")).read_text(encoding="utf-8")

    assert PRICES.main_query in text
    assert "The boxes cost 84." in text
    assert "The sum is right." in text


def test_the_page_of_a_group_offers_the_file(page: Page, window: BrowserContext, viewer: Viewer, tmp_path: Path) -> None:
    run = find_run(window, viewer, "marbles")
    open_page(page, viewer, list_pages(run, step=2, task="prices")["group"])
    with page.expect_download() as download:
        page.get_by_role("button", name="Share").click()
        page.get_by_role("link", name="HTML file").click()

    download.value.save_as(tmp_path / "group.html")
    assert (tmp_path / "group.html").stat().st_size > 10_000
