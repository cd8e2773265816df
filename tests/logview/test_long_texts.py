"""Texts that the page of a group shows in part: the rest is loaded, and where siblings part is that of the whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from checked_page import Watch, open_context
from long_run import DRAFT, RUN_NAME, SAME, TASK, THOUGHT
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from viewer import Viewer
from viewer_pages import SLOW_MS, find_run, list_pages, open_page, settle

SHOW = re.compile("Show all")

BEFORE_MARK = """(reply) => {
  const range = document.createRange();
  range.setStart(reply, 0);
  range.setEndBefore(reply.querySelector(".parts-here"));
  return range.toString().length;
}"""

TOPS = """(board) => [...board.querySelectorAll("[data-row]")].map((row) => {
  const line = getComputedStyle(row).gridRowStart;
  const cells = [...board.querySelectorAll(".turn-cell")].filter((cell) => getComputedStyle(cell).gridRowStart === line);
  return [row, ...cells].map((one) => one.getBoundingClientRect().top);
})"""


@pytest.fixture
def board(page: Page, window: BrowserContext, viewer: Viewer) -> Locator:
    """The siblings of the group side by side."""
    run = find_run(window, viewer, RUN_NAME)
    open_page(page, viewer, list_pages(run, step=1, task=TASK)["group"])
    return page.get_by_role("region", name="Siblings side by side")


@pytest.fixture
def file(browser: Browser, window: BrowserContext, viewer: Viewer, watch: Watch, tmp_path: Path) -> Iterator[Page]:
    """The exported file of the group, opened without a network."""
    run = find_run(window, viewer, RUN_NAME)
    address = f"{viewer.origin}/api/export/group.html?run={run}&split=train&step=1&task={TASK}"
    answer = window.request.get(address, timeout=SLOW_MS)
    (tmp_path / "group.html").write_bytes(answer.body())
    with open_context(browser, watch, offline=True) as alone:
        page = alone.new_page()
        page.goto((tmp_path / "group.html").as_uri())
        yield settle(page)


def find_reply(board: Locator, repeat: int, turn: int = 0) -> Locator:
    return board.locator(".turn-cell").nth(turn * 2 + repeat).locator(".message.reply")


def test_siblings_that_differ_only_behind_the_cut_are_not_the_same(board: Locator) -> None:
    expect(board).to_contain_text(re.compile(r"^.*The siblings part at token [\d,]+", re.DOTALL))
    expect(board.get_by_text("same as")).to_have_count(0)
    # What is shown is what they share: they part behind it.
    expect(board.locator(".parts-here")).to_have_count(0)


def test_the_rest_of_a_text_is_loaded_and_shows_where_siblings_part(board: Locator) -> None:
    for repeat in range(2):
        reply = find_reply(board, repeat)
        expect(reply).not_to_contain_text(f"Ending {repeat}.")
        reply.locator(".message-body > .text").get_by_role("button", name=SHOW).click()

        expect(reply).to_contain_text(f"Ending {repeat}.")
        written = reply.locator(".message-body > .text")
        assert written.evaluate(BEFORE_MARK) == len(f"{SAME}Ending ")


def test_rows_stay_aligned_while_texts_grow(board: Locator) -> None:
    find_reply(board, 0).locator(".message-body > .text").get_by_role("button", name=SHOW).click()
    expect(find_reply(board, 0)).to_contain_text("Ending 0.")

    rows = board.evaluate(TOPS)

    assert len(rows) == 3
    for tops in rows:
        assert len(tops) == 3
        assert max(tops) - min(tops) < 1


def test_reasoning_and_arguments_of_tools_are_loaded_too(board: Locator) -> None:
    reply = find_reply(board, 1)
    reply.get_by_text("Reasoning").click()
    thought = reply.locator(".fold.reasoning .text")
    thought.get_by_role("button", name=SHOW).click()
    expect(thought.get_by_role("button")).to_have_count(0)
    assert thought.inner_text().strip() == THOUGHT.strip()

    call = find_reply(board, 1, turn=1).locator(".tool-call")
    expect(call).not_to_contain_text("not a JSON object")
    call.get_by_role("button", name=SHOW).click()
    expect(call.locator("dt")).to_have_text("draft")
    assert call.locator("dd").inner_text().strip() in DRAFT


def test_a_message_of_the_request_is_loaded(board: Locator) -> None:
    asked = board.page.get_by_role("region", name="What all siblings share").locator(".message").first
    expect(asked).to_have_count(1)
    cell = board.locator(".turn-cell").nth(2)
    cell.locator(".message.role-user").get_by_role("button", name=SHOW).click()

    expect(cell).to_contain_text("End of the notes.")


def test_a_file_holds_the_whole_texts(file: Page) -> None:
    board = file.get_by_role("region", name="Siblings side by side")
    reply = find_reply(board, 0)
    reply.locator(".message-body > .text").get_by_role("button", name=SHOW).click()

    expect(reply).to_contain_text("Ending 0.")


def test_a_text_that_cannot_be_loaded_says_why(board: Locator, watch: Watch) -> None:
    watch.allow("ERR_FAILED")
    board.page.route("**/text?*", lambda route: route.abort())
    reply = find_reply(board, 0)
    reply.locator(".message-body > .text").get_by_role("button", name=SHOW).click()

    expect(reply).to_contain_text("11,509 characters are left out. The viewer's server does not answer.")
