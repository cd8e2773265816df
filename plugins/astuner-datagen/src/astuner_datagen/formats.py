"""From the bytes of a document to its text: txt and md as they are, html without its markup, pdf page by page."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.contract.errors import PluginError
from astuner.shared.install_hints import install_command

if TYPE_CHECKING:
    from bs4 import BeautifulSoup

FORMATS = (".txt", ".md", ".markdown", ".htm", ".html", ".pdf")
_LIBRARIES = {".htm": "bs4", ".html": "bs4", ".pdf": "pypdf"}
_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_BLOCKS = [
    *("address", "article", "aside", "blockquote", "dd", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "table", "tr", "ul"),
]
_UNSEEN = ("script", "style", "noscript", "template", "head")
_PAGE_GAP = "\n\n"


class Unreadable(Exception):
    """A document cannot be read; the message says why."""


@frozen(kw_only=True)
class ParsedDocument:
    """The text of a document."""

    text: str
    page_starts: tuple[int, ...] = ()
    """Where each page begins in it."""


def check_libraries(suffixes: set[str]) -> None:
    """Raise `PluginError` if the library for one of the formats is not installed; imports none."""
    for suffix in sorted(suffixes & _LIBRARIES.keys()):
        if find_spec(_LIBRARIES[suffix]) is None:
            raise PluginError(
                f"reader 'data_generation' needs the package {_LIBRARIES[suffix]} for {suffix} files: "
                + install_command("astuner-datagen[documents]")
            )


def parse(path: Path, content: bytes) -> ParsedDocument:
    """Return the text; raises `Unreadable`."""
    suffix = path.suffix.lower()
    if suffix == ".pdf":
        return _parse_pdf(content)
    return ParsedDocument(text=_parse_html(content) if suffix in (".htm", ".html") else _parse_plain(content))


def _parse_plain(content: bytes) -> str:
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(f"byte {error.start + 1} is not {encoding.upper()}; save the file as UTF-8") from error


def _parse_html(content: bytes) -> str:
    from bs4 import BeautifulSoup

    try:
        return _visible_text(BeautifulSoup(content, "html.parser"))
    except Exception as error:
        # The boundary for untrusted files, as for a pdf: the parser refuses some markup, and recurses too deeply in other.
        raise Unreadable(f"the html cannot be parsed: {type(error).__name__}: {error}") from error


def _visible_text(page: BeautifulSoup) -> str:
    """Return the visible text of a page."""
    from bs4.element import PreformattedString

    # Comments, doctypes and declarations are strings of special classes.
    for unseen in [text for text in page.descendants if isinstance(text, PreformattedString)]:
        unseen.extract()
    for tag in page(_UNSEEN):
        tag.decompose()
    # Line ends of the source are spaces on a page; visible ones come from tags.
    for text in page.find_all(string=True):
        if text.find_parent("pre") is None:
            text.replace_with(re.sub(r"\s+", " ", text))
    for tag in page("br"):
        tag.replace_with("\n")
    for tag in page(["td", "th"]):
        tag.append(" ")
    for tag in page(_BLOCKS):
        tag.insert_before("\n")
        tag.append("\n")
    lines = [line.strip() for line in page.get_text().splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _parse_pdf(content: bytes) -> ParsedDocument:
    from pypdf import PdfReader

    try:
        with _collect_warnings("pypdf") as warnings:
            file = PdfReader(io.BytesIO(content))
            if file.is_encrypted and not file.decrypt(""):
                raise Unreadable("the pdf is encrypted with a password; save it without one")
            pages = [_page_text(page) for page in file.pages]
    except Unreadable:
        raise
    except Exception as error:
        # The boundary for untrusted files: the parser may fail in any way on a broken one.
        first = f" ({warnings[0]})" if warnings and warnings[0] not in str(error) else ""
        raise Unreadable(f"the pdf cannot be parsed: {type(error).__name__}: {error}{first}") from error
    starts, at = [], 0
    for text in pages:
        starts.append(at)
        at += len(text) + len(_PAGE_GAP)
    return ParsedDocument(text=_PAGE_GAP.join(pages), page_starts=tuple(starts))


@contextmanager
def _collect_warnings(name: str) -> Iterator[list[str]]:
    """Collect what a library logs, which would otherwise appear in the terminal without the document's name."""
    found: list[str] = []
    handler, logger = logging.Handler(logging.WARNING), logging.getLogger(name)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated


def _page_text(page: Any) -> str:
    return str(page.extract_text())
