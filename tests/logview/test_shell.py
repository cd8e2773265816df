"""What frames every page: who may open it, its keys, its colours, its ways on."""

from __future__ import annotations

import pytest
from checked_page import Watch, open_context
from playwright.sync_api import Browser, Page, expect
from viewer import Viewer
from viewer_pages import open_page

BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor"


def test_a_browser_without_the_address_sees_nothing(browser: Browser, viewer: Viewer, cookie: object, watch: Watch) -> None:
    watch.allow("403")
    with open_context(browser, watch) as window:
        page = window.new_page()

        assert page.goto(viewer.origin + "/").status == 403  # type: ignore[union-attr]
        expect(page.locator("body")).to_contain_text("astuner logview")


def test_the_printed_address_works_once(browser: Browser, viewer: Viewer, cookie: object, watch: Watch) -> None:
    watch.allow("403")
    with open_context(browser, watch) as window:
        assert window.new_page().goto(viewer.address).status == 403  # type: ignore[union-attr]


def test_the_token_is_not_left_in_the_address(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.address)

    assert "open=" not in page.url


def test_a_question_mark_lists_the_keys(page: Page, viewer: Viewer) -> None:
    open_page(page, viewer, "/")
    page.keyboard.press("?")

    help_ = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(help_).to_be_visible()
    expect(help_).to_contain_text("Search")
    page.keyboard.press("Escape")
    expect(help_).to_be_hidden()


def test_keys_do_not_act_while_one_types(page: Page, viewer: Viewer) -> None:
    open_page(page, viewer, "/")
    page.keyboard.press("/")
    page.keyboard.type("g?")

    expect(page.get_by_role("dialog")).to_be_hidden()
    assert page.evaluate("document.activeElement.value") == "g?"


@pytest.mark.parametrize(("scheme", "other"), [("light", "Use dark colours"), ("dark", "Use light colours")])
def test_colours_follow_the_system_until_they_are_chosen(
    browser: Browser, viewer: Viewer, cookie: object, watch: Watch, scheme: str, other: str
) -> None:
    with open_context(browser, watch, storage_state=cookie, color_scheme=scheme) as window:
        page = open_page(window.new_page(), viewer, "/")
        before = page.evaluate(BACKGROUND)
        page.get_by_role("button", name=other).click()
        chosen = page.evaluate(BACKGROUND)
        page.reload()

        assert chosen != before
        assert page.evaluate(BACKGROUND) == chosen


def test_a_page_that_does_not_exist_leads_back(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.link("/nowhere"))

    expect(page.get_by_text("There is no such page")).to_be_visible()
    page.get_by_role("link", name="Go to all runs").click()
    expect(page).to_have_url(viewer.link("/"))
    expect(page).to_have_title("Runs · astuner")


def test_the_first_tab_stop_skips_to_the_content(page: Page, viewer: Viewer) -> None:
    open_page(page, viewer, "/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")

    expect(page.get_by_role("main")).to_be_focused()
