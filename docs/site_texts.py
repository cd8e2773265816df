"""What the site has besides the pages of the repository: those of the public modules, and `llms.txt` for programs that read."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

MODULE_ROW = re.compile(r"^\| `(astuner[\w.]*)` \| (stable|may change) \|", re.MULTILINE)
MODULES = "api"
"""The folder of the pages of modules."""


def write_module_pages(page: Path, source: Path) -> Sequence[Mapping[str, str]]:
    """Write a page for each section of `docs/api.md` that lists modules; return the entries of the navigation."""
    entries = []
    for section in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, rows = section.partition("\n")[0], MODULE_ROW.findall(section)
        if not rows:
            continue
        place = f"{MODULES}/{re.sub(r'[^a-z]+', '_', title.lower())}.md"
        parts = [f"## `{module}`\n\n*{stability}*\n\n::: {module}" for module, stability in rows]
        (source / place).parent.mkdir(parents=True, exist_ok=True)
        (source / place).write_text("\n\n".join([f"# {title}", *parts, ""]), encoding="utf-8")
        entries.append({title: place})
    return entries


def write_texts(name: str, about: str, titles: Sequence[tuple[str, str, str]], source: Path, built: Path) -> None:
    """Write the Markdown next to the HTML, `llms.txt`, which lists the pages, and `llms-full.txt`, which holds them.

    `titles` has section, title and place of each page. The format is that of https://llmstxt.org.
    """
    # Those of modules hold the names alone.
    for file in (file for file in source.rglob("*.md") if file.relative_to(source).parts[0] != MODULES):
        (built / file.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, built / file.relative_to(source))
    index, whole = [f"# {name}\n\n> {about}\n"], [f"# {name}\n\n> {about}\n"]
    for section, pages in groupby(titles, lambda page: page[0]):
        index.append(f"\n## {section}\n\n")
        for _, title, place in pages:
            text = (source / place).read_text(encoding="utf-8")
            index.append(f"- [{title}]({place}): {find_first_sentence(text)}\n")
            whole.append(f"\n<!-- {place} -->\n\n{text.strip()}\n")
    (built / "llms.txt").write_text("".join(index), encoding="utf-8")
    (built / "llms-full.txt").write_text("".join(whole), encoding="utf-8")


def find_first_sentence(text: str) -> str:
    """Return the first sentence of a page below its title, without links and markup."""
    prose = re.sub(r"<!--.*?-->|^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    paragraphs = [part for part in re.split(r"\n\s*\n", prose) if re.match(r"(?![*-] )[\w`*\[(-]", part)]
    joined = " ".join(paragraphs[0].split()) if paragraphs else ""
    plain = re.sub(r"\*\*|`|!?\[([^\]]*)\]\([^)]*\)", r"\1", joined)
    return re.split(r"(?<=[.!?])\s|(?<=。)", plain)[0].removesuffix(":")
