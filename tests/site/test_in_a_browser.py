"""The site in a browser: no request leaves it, it is searched offline, and it fits a phone, in the light and in the dark."""

from __future__ import annotations

from typing import Literal

import pytest
from checked_page import Watch, open_context
from playwright.sync_api import Browser, Page, expect

PAGES = [
    "",
    "about/",
    "judges/",
    "configuration/",
    "tutorial/shop/",
    "api/for_every_plugin/",
    "zh/",
    "files/recipes/0.1b-cpu.yaml/",
]
BACKGROUND = "getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).slice(0, 3).reduce((sum, one) => sum + +one, 0)"


def open_page(page: Page, address: str) -> Page:
    page.goto(address)
    expect(page.locator("article h1").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    return page


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_and_asks_no_other_host(
    browser: Browser, address: str, path: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    with open_context(browser, Watch(), viewport={"width": width, "height": 800}, color_scheme=scheme) as context:
        page = open_page(context.new_page(), address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # The sum of red, green and blue.
        assert (page.evaluate(BACKGROUND) > 382) == (scheme == "light")
        page.screenshot()


def test_the_search_finds_a_word_offline(browser: Browser, address: str) -> None:
    with open_context(browser, Watch()) as context:
        page = open_page(context.new_page(), address)
        page.keyboard.press("/")
        page.keyboard.type("staleness")
        result = page.get_by_role("option").filter(has_text="How far ahead the explorer may be").first
        expect(result).to_be_visible()
        result.click()
        expect(page.locator("article h1")).to_contain_text("Trinity")


def test_a_file_is_not_searched(browser: Browser, address: str) -> None:
    with open_context(browser, Watch()) as context:
        found = context.request.get(f"{address}search.json").json()
    places = {one["location"] for one in found["items"]}
    assert any(place.startswith("judges/") for place in places)
    assert [place for place in places if place.startswith("files/")] == []
