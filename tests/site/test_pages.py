"""The built site: every link leads somewhere, nothing is loaded from elsewhere, and the start page is near to everything."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from built_pages import Page, follow, read_pages, resolve
from harness import REPOSITORY

NEAR = {
    "an own agent": "frameworks/",
    "an own judge": "judges/#your-own-judge",
    "an own plugin": "plugins/#a-judge-in-ten-minutes",
    "verl on eight GPUs": "verl/#a-node-with-gpus",
    "what a metric means": "run_directory/#metrics",
    "why a reward stays flat": "troubleshooting/#the-reward-stays-flat",
    "an own chat template": "chat_templates/",
    "how many episodes": "choose_sizes/#repeats-and-tasks",
    "serving the model": "serving/",
    "two agents": "tutorial/two_agents/",
}
"""What readers come for, and where it is."""
SECTIONS = ["Start", "Guides", "Concepts", "Gallery", "Reference", "Plugins", "Numbers", "Coming from"]
ENTRY = re.compile(r"^- \[(?P<title>[^\]]+)\]\((?P<place>[^)]+)\): (?P<about>.+)$")


@pytest.fixture(scope="module")
def pages(built: Path) -> dict[str, Page]:
    return read_pages(built)


def test_every_link_leads_to_a_page_and_a_place_in_it(built: Path, pages: dict[str, Page]) -> None:
    broken = []
    for address, page in pages.items():
        for link in page.links if address != "404.html" else []:
            if found := resolve(address, link):
                target, anchor = found
                known = pages.get(target)
                if (known is None and not (built / target).is_file()) or (
                    known and anchor and anchor not in known.ids | {"__top"}
                ):
                    broken.append(f"{address}: {link}")
    assert len(pages) > 120
    assert broken == []


def test_nothing_is_loaded_from_another_host(built: Path, pages: dict[str, Page]) -> None:
    loaded = {link for page in pages.values() for link in page.loaded}
    assert [link for link in loaded if re.match(r"(?!data:)[a-z]+:|//", link)] == []
    styles = "".join(file.read_text(encoding="utf-8") for file in built.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]*", styles) == []


def test_no_markup_is_left_in_a_text(built: Path) -> None:
    left = []
    for file in built.rglob("*.html"):
        text = re.sub(r"<(pre|code|script|style|svg).*?</\1>", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
        left += [f"{file}: {found}" for found in re.findall(r"\n\* .*|\|---.*|```.*|^:::.*|\]\([^)]*\)", text)]
    assert left == []


@pytest.mark.parametrize("what", NEAR)
def test_the_start_page_is_two_clicks_from_what_readers_come_for(pages: dict[str, Page], what: str) -> None:
    target, _, anchor = NEAR[what].partition("#")
    first = {*follow(pages, "")}
    second = {found for address, _ in first if address in pages for found in follow(pages, address)}
    assert (target, anchor) in first | second
    assert not anchor or anchor in pages[target].ids


def test_a_bar_inside_code_in_a_table_is_a_bar(built: Path) -> None:
    page = (built / "configuration" / "index.html").read_text(encoding="utf-8")
    assert "<code>str | None</code>" in page
    assert r"str \| None" not in page


def test_a_file_that_is_not_a_page_is_shown(built: Path) -> None:
    shown = (built / "files" / "recipes" / "7b-8x80gb.yaml" / "index.html").read_text(encoding="utf-8")
    assert "train_batch_size" in shown


def test_every_public_module_has_its_place(pages: dict[str, Page]) -> None:
    file = REPOSITORY / "plugins" / "astuner-devkit" / "src" / "astuner_devkit" / "public_modules.toml"
    modules = tomllib.loads(file.read_text(encoding="utf-8"))
    ids = {one for address, page in pages.items() if address.startswith("api/") for one in page.ids}
    named = {module for module in modules if module.replace(".", "") in ids}
    assert sorted(set(modules) - named) == []
    assert {"astuner.run", "astuner.contract.schema.Task", "astuner.contract.errors.AstunerError"} <= ids


def test_programs_find_the_pages_of_the_navigation(built: Path) -> None:
    lines = (built / "llms.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# AgentScope Tuner"
    assert [line for line in lines if line.startswith("> ")] == [lines[2]]
    assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == SECTIONS
    others = [line for line in lines[3:] if line and not line.startswith("## ")]
    entries = [found for line in others if (found := ENTRY.match(line))]
    assert len(entries) == len(others)
    settings = tomllib.loads((REPOSITORY / "docs" / "site.toml").read_text(encoding="utf-8"))
    listed = [one for section in settings["section"] for entry in section["pages"] if isinstance(entry, dict) for one in entry]
    assert [found["title"] for found in entries] == listed
    whole = (built / "llms-full.txt").read_text(encoding="utf-8")
    for found in entries:
        assert (built / found["place"]).read_text(encoding="utf-8").strip() in whole


def test_the_links_of_the_markdown_lead_to_files_of_the_site(built: Path) -> None:
    broken, files = [], [file for file in built.rglob("*.md") if file.is_file()]
    assert len(files) > 100
    for file in files:
        prose = re.sub(r"^ *(```+).*?^ *\1|`[^`]*`", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        targets = re.findall(r"\]\((?![a-z]+:|#)([^()#\s]+)", prose)
        broken += [f"{file}: {target}" for target in targets if not (file.parent / target).is_file()]
    assert broken == []
