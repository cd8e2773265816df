"""What the HTML of the built site refers to."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

LOADED = {
    "link": "href",
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
    "use": "href",
}
"""The elements that a browser loads something for on its own, with the attribute that names it."""


class Page(HTMLParser):
    """What one page refers to, and where it can be referred to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.own_links: list[str] = []
        """Those of the text, without navigation, table of contents and footer."""
        self.ids: set[str] = set()
        self._inside = 0
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self._inside += tag == "article"
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if (loaded := found.get(LOADED.get(tag, ""))) and found.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(loaded)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
            if self._inside:
                self.own_links.append(found["href"])

    def handle_endtag(self, tag: str) -> None:
        self._inside -= tag == "article"


def read_pages(built: Path) -> dict[str, Page]:
    """Return every page by its address within the site: `judges/` is that of `judges/index.html`."""
    files = sorted(built.rglob("*.html"))
    return {file.relative_to(built).as_posix().removesuffix("index.html"): Page(file) for file in files}


def resolve(address: str, link: str) -> tuple[str, str] | None:
    """Return the address within the site and the anchor that a link of a page leads to; None if it leaves the site."""
    whole, anchor = urldefrag(urljoin(f"http://site/{address}", link))
    return (whole.removeprefix("http://site/"), unquote(anchor)) if whole.startswith("http://site/") else None


def follow(pages: dict[str, Page], address: str) -> Iterator[tuple[str, str]]:
    """Yield where the links of a page's text lead to within the site."""
    for link in pages[address].own_links:
        if found := resolve(address, link):
            yield found
