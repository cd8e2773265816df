"""What holds for every page: it reads well on a phone, for a screen reader and in the dark, and survives a reload."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

import pytest
from browser_tools import BrowserTools
from checked_page import Watch, open_context
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, expect
from viewer import Viewer
from viewer_pages import find_run, list_pages, open_page, settle

KINDS = list(list_pages("", step=1, task=""))

OVERFLOWING = """() => {
  const width = document.documentElement.clientWidth;
  const beyond = [...document.querySelectorAll("body *")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width && box.right > width + 1 && !one.closest(".sr-only");
  });
  return {width: document.scrollingElement.scrollWidth, beyond: beyond.slice(0, 5).map((one) => one.outerHTML.slice(0, 160))};
}"""

TEXT = """() => {
  const main = document.querySelector("main").cloneNode(true);
  // How long ago something was is another text a second later.
  for (const time of main.querySelectorAll("time")) time.remove();
  return main.textContent;
}"""

FOCUS = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const style = getComputedStyle(one);
  const outline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  return {name: one.outerHTML.slice(0, 160), visible: outline || style.boxShadow !== "none"};
}"""


def address_of(window: BrowserContext, viewer: Viewer, kind: str) -> str:
    marbles, pebbles = (find_run(window, viewer, name) for name in ("marbles", "pebbles"))
    return list_pages(marbles, step=2, task="prices", other=pebbles)[kind]


@pytest.fixture(scope="module", params=KINDS)
def opened(request: pytest.FixtureRequest, browser: Browser, viewer: Viewer, cookie: StorageState) -> Iterator[Page]:
    """A page of each kind, for tests that only look at it."""
    with open_context(browser, Watch(), storage_state=cookie) as window:
        yield open_page(window.new_page(), viewer, address_of(window, viewer, request.param))


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_no_wider_than_a_phone(browser: Browser, viewer: Viewer, cookie: StorageState, watch: Watch, kind: str) -> None:
    with open_context(browser, watch, storage_state=cookie, viewport={"width": 360, "height": 720}) as window:
        page = open_page(window.new_page(), viewer, address_of(window, viewer, kind))

        found = page.evaluate(OVERFLOWING)

        assert found["width"] <= 360, "\n".join(found["beyond"])


def test_a_page_has_one_heading_that_names_it_and_a_title(opened: Page) -> None:
    levels = opened.locator("h1, h2, h3, h4, h5, h6").evaluate_all("(found) => found.map((one) => Number(one.tagName[1]))")

    assert levels.count(1) == 1
    assert [(a, b) for a, b in pairwise(levels) if b > a + 1] == []
    assert opened.title() not in ("", "astuner")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_breaks_no_rule_of_accessibility(opened: Page, tools: BrowserTools, scheme: Literal["light", "dark"]) -> None:
    opened.emulate_media(color_scheme=scheme)

    found = check_with_axe(opened, tools)

    assert not found, "\n".join(found)


def test_what_has_the_focus_is_seen(opened: Page) -> None:
    seen = []
    for _ in range(25):
        opened.keyboard.press("Tab")
        seen.append(opened.evaluate(FOCUS))

    focused = [one for one in seen if one is not None]
    assert len(focused) > 5
    assert [one["name"] for one in focused if not one["visible"]] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_the_same_after_a_reload(page: Page, window: BrowserContext, viewer: Viewer, kind: str) -> None:
    open_page(page, viewer, address_of(window, viewer, kind))
    address, text = page.url, page.evaluate(TEXT)

    page.reload()
    open_page(page, viewer, address.partition("#")[2])

    assert page.url == address
    assert page.evaluate(TEXT) == text


def test_the_back_button_goes_through_the_pages(page: Page, window: BrowserContext, viewer: Viewer) -> None:
    addresses = [address_of(window, viewer, kind) for kind in ("run", "group", "episode", "tokens")]
    for address in addresses:
        open_page(page, viewer, address)

    for address in reversed(addresses[:-1]):
        page.go_back()
        settle(page)
        assert page.url.partition("#")[2].startswith(address)


def test_an_address_that_leads_nowhere_says_so(page: Page, viewer: Viewer, watch: Watch) -> None:
    watch.allow("404")
    page.goto(viewer.link("/r/no-such-run"))

    expect(page.get_by_role("alert")).to_contain_text("no-such-run")


def check_with_axe(page: Page, tools: BrowserTools) -> list[str]:
    """What axe finds against WCAG 2 A and AA; it arrives through the debugger, which no policy of the page forbids.

    Of a link that skips to the content it expects an anchor, which a page with its address behind `#` cannot have.
    """
    page.evaluate(tools.axe.read_text(encoding="utf-8"))
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.evaluate(
        "(tags) => axe.run(document, {runOnly: tags, resultTypes: ['violations']}).then((found) => found.violations)",
        tags,
    )
    return [f"{one['id']}: {one['help']}: {node['html'][:200]}" for one in found for node in one["nodes"][:3]]
