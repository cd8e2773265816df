"""Pages of a real browser that note whatever a page of the viewer must never do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import define, field
from browser_tools import BrowserTools
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, StorageState, expect
from viewer import Viewer

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--headless=new",
    "--disable-background-networking",
    "--disable-component-update",
    # No name leads anywhere: what a page asks of another host fails, and is noted below.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
WAIT_MS = 30_000
"""On a busy machine; on an idle one nothing takes a second."""
expect.set_options(timeout=WAIT_MS)

LOCAL = re.compile(r"(http://127\.0\.0\.1:\d+/|data:|blob:|about:|file:)")

LISTEN = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""


@define(eq=False, slots=False)
class Watch:
    """What pages have done that they must not do. Without slots, since Playwright keeps a note of its own on a listener."""

    faults: list[str] = field(factory=list)
    allowed: list[re.Pattern[str]] = field(factory=list)

    def allow(self, pattern: str) -> None:
        """Let a test that provokes an error expect what the browser says of it."""
        self.allowed.append(re.compile(pattern))

    def follow(self, context: BrowserContext) -> None:
        context.add_init_script(LISTEN)
        context.on("request", lambda request: LOCAL.match(request.url) or self._add(f"a request left: {request.url[:200]}"))
        context.on("page", self._follow_page)

    def check(self, context: BrowserContext) -> None:
        for page in context.pages:
            for found in page.evaluate("window.violations ?? []"):
                self._add(f"against the content security policy: {found}")
            if page.evaluate("'attacked' in window"):
                self._add("a text of the run was executed")
        assert not self.faults, "\n".join(self.faults)

    def _follow_page(self, page: Page) -> None:
        page.on("console", self._read_console)
        page.on("pageerror", lambda error: self._add(f"uncaught: {error}\n{error.stack or ''}"[:2000]))
        page.on("dialog", lambda dialog: (self._add(f"a dialog: {dialog.message}"), dialog.dismiss()))

    def _read_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._add(f"console {message.type}: {message.text} ({message.location['url'][:200]})")

    def _add(self, fault: str) -> None:
        if not any(pattern.search(fault) for pattern in self.allowed):
            self.faults.append(fault)


def launch(playwright: Playwright, tools: BrowserTools) -> Browser:
    return playwright.chromium.launch(executable_path=tools.chromium, args=ARGUMENTS, env={**tools.environment})


def open_address(browser: Browser, viewer: Viewer) -> StorageState:
    """Open the address that the viewer has printed, and return the cookie."""
    context = browser.new_context()
    context.new_page().goto(viewer.address)
    state = context.storage_state()
    context.close()
    return state


@contextmanager
def open_context(browser: Browser, watch: Watch, **options: Any) -> Iterator[BrowserContext]:
    """Open a browser window with cookies of its own; what its pages did is checked at the end."""
    plain = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce", "locale": "en-GB"}
    context = browser.new_context(**{**plain, **options})
    context.set_default_timeout(WAIT_MS)
    watch.follow(context)
    try:
        yield context
        watch.check(context)
    finally:
        context.close()
