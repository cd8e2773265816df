"""What a page asks the server for when it opens."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, Route
from viewer import Viewer
from viewer_pages import SLOW_MS, ask, find_run, list_pages, open_page, settle

COUNT_EVENTS = """
window.events = new Set();
const listen = EventSource.prototype.addEventListener;
EventSource.prototype.addEventListener = function (name, listener) {
  listen.call(this, name, (event) => {
    listener(event);
    window.events.add(name);
  });
};
"""


@pytest.mark.parametrize("name", ["group", "episode", "tokens", "task"])
def test_no_answer_is_asked_for_twice(page: Page, window: BrowserContext, viewer: Viewer, name: str) -> None:
    run = find_run(window, viewer, "marbles")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    open_page(page, viewer, list_pages(run, step=2, task="prices")[name])

    answers = [url for url in asked if urlsplit(url).path.startswith("/api/runs")]
    assert answers
    assert sorted(answers) == sorted(set(answers))


def test_no_answer_is_asked_for_twice_when_a_module_comes_after_the_first_events(
    page: Page, window: BrowserContext, viewer: Viewer
) -> None:
    run = find_run(window, viewer, "marbles")
    asked, held = list[str](), list[Route]()
    page.add_init_script(COUNT_EVENTS)
    page.route("**/pages/tokens.js", lambda route: held.append(route))
    page.on("request", lambda request: asked.append(request.url))

    page.goto(viewer.link(list_pages(run, step=2, task="prices")["tokens"]))
    page.wait_for_function("() => window.events.has('index') && window.events.has('run')", timeout=SLOW_MS)
    for route in held:
        route.continue_()
    settle(page)

    answers = [url for url in asked if urlsplit(url).path.startswith("/api/runs")]
    assert sorted(answers) == sorted(set(answers))


def test_the_answers_of_a_run_that_was_left_are_asked_for_again(page: Page, window: BrowserContext, viewer: Viewer) -> None:
    run = find_run(window, viewer, "marbles")
    other = next(one["id"] for one in ask(window, viewer, "/api/runs")["runs"] if one["id"] != run)
    tokens = list_pages(run, step=2, task="prices")["tokens"]
    open_page(page, viewer, tokens)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))

    for address in (f"/r/{other}/episodes", tokens):
        page.evaluate("(address) => { location.hash = address; }", f"#{address}")
        settle(page)

    assert asked.count(f"/api/runs/{run}/stream") == 1


def test_the_first_tokens_are_asked_for_before_the_modules_of_their_page(
    page: Page, window: BrowserContext, viewer: Viewer
) -> None:
    run = find_run(window, viewer, "marbles")
    open_page(page, viewer, "/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))

    # As a link on the page does, without loading the document again.
    page.evaluate("(address) => { location.hash = address; }", f"#{list_pages(run, step=2, task='prices')['tokens']}")
    settle(page)

    modules = min(at for at, path in enumerate(asked) if path.endswith(".js"))
    assert max(asked.index(f"/api/runs/{run}/{answer}") for answer in ("stream", "tokens")) < modules
