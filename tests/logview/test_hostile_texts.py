"""Texts of models, tasks and judges that attack the page: they are shown, and nothing of them is executed."""

from __future__ import annotations

import pytest
from checked_page import Watch
from hostile_run import RUN_NAME, TASK_IDS
from playwright.sync_api import BrowserContext, Page, expect
from viewer import Viewer, quoted
from viewer_pages import ask, find_run, list_pages, open_page

IN_RUN = [kind for kind in list_pages("", step=1, task="") if kind not in ("compare", "configuration")]

LONG = ("group", "episode", "tokens", "task")


@pytest.mark.parametrize("kind", IN_RUN)
def test_markup_is_shown_as_text(page: Page, window: BrowserContext, viewer: Viewer, kind: str) -> None:
    run = find_run(window, viewer, RUN_NAME)
    open_page(page, viewer, list_pages(run, step=1, task=TASK_IDS[0])[kind])

    # What the page must never hold is found by `Watch`: a dialog, a request, `window.attacked`.
    assert page.locator("img, iframe, object, svg[onload], main script").count() == 0
    expect(page.locator("body")).to_contain_text(RUN_NAME if kind == "runs" else "a/b/../c" if kind in ("tasks",) else "<")


@pytest.mark.parametrize("task", TASK_IDS)
def test_a_task_may_have_any_name(page: Page, window: BrowserContext, viewer: Viewer, task: str) -> None:
    run = find_run(window, viewer, RUN_NAME)
    address = f"/api/runs/{run}/group?split=train&step=1&task={quoted(task)}"

    assert ask(window, viewer, address)["task"] == task
    for kind in ("group", "episode", "tokens", "task"):
        open_page(page, viewer, list_pages(run, step=1, task=task)[kind])
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.locator("main")).not_to_be_empty()


@pytest.mark.parametrize("kind", LONG)
def test_a_line_of_a_megabyte_does_not_hold_the_page_up(page: Page, window: BrowserContext, viewer: Viewer, kind: str) -> None:
    run = find_run(window, viewer, RUN_NAME)
    open_page(page, viewer, list_pages(run, step=2, task="long line", repeat=1)[kind])

    assert page.evaluate("document.querySelectorAll('*').length") < 5_000
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 1280
    assert len(page.locator("main").inner_text()) < 300_000


@pytest.mark.parametrize("kind", ["group", "episode", "tokens"])
def test_marks_that_turn_or_hide_text_are_made_visible(page: Page, window: BrowserContext, viewer: Viewer, kind: str) -> None:
    run = find_run(window, viewer, RUN_NAME)
    open_page(page, viewer, list_pages(run, step=1, task=TASK_IDS[0])[kind])

    text = page.locator("main").evaluate("(main) => main.textContent")

    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "invoice" in text


def test_a_completion_of_a_hostile_value_is_text(page: Page, window: BrowserContext, viewer: Viewer, watch: Watch) -> None:
    # A filter that is not complete may be refused meanwhile.
    watch.allow("400")
    run = find_run(window, viewer, RUN_NAME)
    open_page(page, viewer, f"/r/{run}/episodes")
    page.keyboard.press("/")
    page.keyboard.type("agent:")

    expect(page.get_by_role("option").filter(has_text="<img src=x onerror=")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.get_by_text("16 episodes")).to_be_visible()


def test_half_an_emoji_costs_nothing_but_itself(page: Page, window: BrowserContext, viewer: Viewer) -> None:
    run = find_run(window, viewer, RUN_NAME)
    open_page(page, viewer, f"/r/{run}/e/{quoted('train/2/half/0')}")

    expect(page.locator("main")).to_contain_text("half")
