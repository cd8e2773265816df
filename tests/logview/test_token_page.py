"""Every token of an episode, in a real browser."""

from __future__ import annotations

import re

import pytest
from hostile_run import RUN_NAME
from made_up_run import DEBATE
from playwright.sync_api import BrowserContext, Page, expect
from viewer import Viewer, quoted
from viewer_pages import ask, find_run, list_pages, open_page

EPISODE = "train/2/prices/2"
TEXTS = "[...document.querySelectorAll('[data-i]')].map((one) => Number(one.dataset.i))"


@pytest.fixture
def run(window: BrowserContext, viewer: Viewer) -> str:
    """The id of the run that has everything."""
    return find_run(window, viewer, "marbles")


@pytest.fixture
def tokens(page: Page, viewer: Viewer, run: str) -> Page:
    """The tokens of a wrong answer."""
    return open_page(page, viewer, f"/r/{run}/t/{quoted(EPISODE)}")


def test_every_token_of_a_short_path_is_in_the_page(tokens: Page, window: BrowserContext, viewer: Viewer, run: str) -> None:
    stream = ask(window, viewer, f"/api/runs/{run}/stream?id={quoted(EPISODE)}&path=1")

    assert tokens.evaluate(TEXTS) == list(range(stream["tokens"]))
    expect(tokens.get_by_role("region", name=re.compile(f"Text of {stream['tokens']} tokens"))).to_contain_text(
        "The boxes cost 21."
    )


def test_the_measure_is_chosen_and_is_in_the_address(tokens: Page) -> None:
    classes = "[...document.querySelectorAll('[data-i]')].map((one) => one.className)"
    before = tokens.evaluate(classes)
    tokens.get_by_label("Colour by").select_option("advantage")
    tokens.wait_for_url("**by=advantage*")

    after = tokens.evaluate(classes)
    assert after != before
    tokens.reload()
    tokens.wait_for_selector("[data-i]")
    assert tokens.evaluate(classes) == after


def test_a_token_shows_its_numbers(tokens: Page, window: BrowserContext, viewer: Viewer, run: str) -> None:
    answer = ask(window, viewer, f"/api/runs/{run}/tokens?id={quoted(EPISODE)}&path=1&chunk=0")
    place = next(index for index, trained in enumerate(answer["trained"]) if trained)
    tokens.locator(f"[data-i='{place}']").click()
    tokens.wait_for_url(f"**at={place}*")

    inspector = tokens.get_by_role("complementary", name="Token")
    expect(inspector).to_contain_text(str(answer["ids"][place]))
    expect(inspector).to_contain_text("−0.866")


def test_the_worst_tokens_lead_to_their_places(tokens: Page, window: BrowserContext, viewer: Viewer, run: str) -> None:
    worst = ask(window, viewer, f"/api/runs/{run}/stream?id={quoted(EPISODE)}&path=1")["worst"]["logprob"][0]
    tokens.get_by_role("complementary", name="Token").get_by_role("list").get_by_role("button").first.click()

    tokens.wait_for_url(f"**at={worst['index']}*")
    expect(tokens.locator(f"[data-i='{worst['index']}']")).to_have_class(re.compile("current"))


def test_tokens_are_reached_by_keys(tokens: Page) -> None:
    tokens.keyboard.press("Home")
    tokens.wait_for_url("**at=0*")
    tokens.keyboard.press("ArrowRight")
    tokens.wait_for_url("**at=1*")
    tokens.keyboard.press("j")
    tokens.wait_for_url(re.compile(r"at=\d\d"))


def test_a_token_that_was_not_trained_says_why(page: Page, window: BrowserContext, viewer: Viewer, run: str) -> None:
    episode = f"train/2/{DEBATE.task_id}/0"
    open_page(page, viewer, f"/r/{run}/t/{quoted(episode)}?path=3&by=trained")

    expect(page.get_by_role("region", name=re.compile("Text of"))).to_contain_text("not trained: frozen_agent")


def test_a_path_of_the_tree_is_chosen(page: Page, viewer: Viewer, run: str) -> None:
    open_page(page, viewer, list_pages(run, step=2, task=DEBATE.task_id)["tokens"])
    page.get_by_label(re.compile("Path")).select_option(index=1)

    page.wait_for_url(re.compile(r"path=(?!4)\d"))


def test_a_long_stream_is_drawn_in_windows(page: Page, window: BrowserContext, viewer: Viewer) -> None:
    run = find_run(window, viewer, RUN_NAME)
    open_page(page, viewer, f"/r/{run}/t/{quoted('train/2/long line/1')}?at=300000")
    page.wait_for_selector("[data-i='300000']")

    drawn = page.evaluate(TEXTS)
    assert len(drawn) < 5_000
    page.get_by_role("slider", name="Place in the stream").focus()
    page.keyboard.press("Home")
    page.wait_for_selector("[data-i='0']")
    assert page.evaluate("document.querySelectorAll('*').length") < 6_000


def test_what_the_trainer_recorded_can_be_chosen(tokens: Page, window: BrowserContext, viewer: Viewer, run: str) -> None:
    answer = ask(window, viewer, f"/api/runs/{run}/tokens?id={quoted(EPISODE)}&path=1&chunk=0")
    place = next(index for index, trained in enumerate(answer["trained"]) if trained)
    tokens.get_by_label("Colour by").select_option("mismatch")
    tokens.wait_for_url("**by=mismatch*")
    tokens.locator(f"[data-i='{place + 2}']").click()

    assert answer["values"]["mismatch"][place] == pytest.approx(-0.25, abs=0.01)
    expect(tokens.get_by_role("complementary", name="Token")).to_contain_text("clipped at the high end")
