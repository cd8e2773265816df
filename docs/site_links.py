"""Where the site has each file of the repository, and the text of a page as the site needs it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCED = re.compile(r"^ *(?P<fence>```+).*?^ *(?P=fence)$", re.MULTILINE | re.DOTALL)
CODE = re.compile(FENCED.pattern + r"|(?<!`)(?P<ticks>`+)[^`].*?(?P=ticks)(?!`)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)(?P<path>[^()\s#]+)(?P<anchor>#[^()\s]*)?")
# Python-Markdown reads three things unlike other readers of Markdown.
LIST_AFTER_TEXT = re.compile(r"(?<=\n)(?=[^ #|*\n])(.+\n)(?=\* )")
"""A list that a paragraph runs into needs an empty line between them."""
LATER_PARAGRAPH = re.compile(r"(?<=\n\n)(?:  (?! ).*\n)+")
"""A further paragraph of an item needs an indentation of four, and an empty line after it."""
TABLE_ROW = re.compile(r"(?<=\n)\|.*")
"""In a row of a table the backslash of a `\\|` inside code would be shown, and is not needed."""
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".sh": "bash", ".jsonl": "json"}
PICTURES = {".png", ".svg"}


@dataclass(frozen=True, kw_only=True)
class Site:
    """What `site.toml` describes; all paths are those of the repository."""

    root: Path
    """Of the repository."""
    settings: Mapping[str, Any]
    pages: frozenset[str]

    @property
    def listed(self) -> Sequence[tuple[str, str, str]]:
        """Section, title and path of every entry of the navigation that is a page of the repository, in its order."""
        entries = ((section["title"], entry) for section in self.settings["section"] for entry in section["pages"])
        return [(section, *next(iter(entry.items()))) for section, entry in entries if isinstance(entry, dict)]

    def find_place(self, path: str) -> str:
        """Return where the site has a file of the repository, relative to its source."""
        if path == "README.md":
            return "about.md"  # the start page is another one
        if path in self.pages or Path(path).suffix in PICTURES:
            return re.sub(r"(^|/)README\.md$", r"\1index.md", path.removeprefix("docs/"))
        return f"files/{path}.md"


def rewrite_page(path: str, site: Site, linked: dict[str, str]) -> str:
    """Return the text of a page with the links that the site needs; `linked` gets each file that they lead to, with the page."""

    def rewrite(found: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(path), found["path"]))
        if (site.root / target).is_dir():
            target = site.settings["folders"].get(target, f"{target}/README.md")
        linked.setdefault(target, path)
        anchor = (found["anchor"] or "") if target in site.pages else ""
        return os.path.relpath(site.find_place(target), os.path.dirname(site.find_place(path)) or ".") + anchor

    text = _change_outside(FENCED, (site.root / path).read_text(encoding="utf-8"), _suit_python_markdown)
    return _change_outside(CODE, text, lambda prose: LINK.sub(rewrite, prose))


def _suit_python_markdown(text: str) -> str:
    text = TABLE_ROW.sub(lambda row: re.sub(r"`[^`]*`", lambda code: code[0].replace(r"\|", "|"), row[0]), text)
    text = LATER_PARAGRAPH.sub(lambda found: re.sub(r"^", "  ", found[0].rstrip("\n"), flags=re.MULTILINE) + "\n\n", text)
    return LIST_AFTER_TEXT.sub(r"\1\n", text)


def _change_outside(code: re.Pattern[str], text: str, change: Callable[[str], str]) -> str:
    def parts() -> Iterator[str]:
        end = 0
        for found in code.finditer(text):
            yield change(text[end : found.start()])
            yield found[0]
            end = found.end()
        yield change(text[end:])

    return "".join(parts())
