"""The exported page: its modules, its answers, and nothing that its texts could break out of."""

from __future__ import annotations

import base64
import json
import re
import zlib
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_logview.errors import Missing
from astuner_logview.export.collecting import collect
from astuner_logview.export.modules import Modules, rewrite
from astuner_logview.export.page import MAIN, PAGES, build_page
from astuner_logview.export.subjects import EpisodeSubject, GroupSubject, encode, make_address, parse_group
from astuner_logview.server.static_files import static_root

HOSTILE = "</script><script>alert(1)</script><!-- \u2028 \ud800 ]]> <img src=x onerror=alert(1)>"
SUBJECT = EpisodeSubject(run="run", id=f"train/1/{HOSTILE}/0")


class Elements(HTMLParser):
    """The elements of a page, with the text of those that scripts and styles are in."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(("", {}, ""))

    def handle_data(self, data: str) -> None:
        if self.found:
            tag, attributes, text = self.found[-1]
            self.found[-1] = tag, attributes, text + data

    def read(self, tag: str, **attributes: str) -> str:
        (text,) = [text for name, given, text in self.found if name == tag and attributes.items() <= given.items()]
        return text


@pytest.fixture(scope="module")
def page() -> str:
    return build_page(SUBJECT, {SUBJECT.answer: {"text": HOSTILE, "not finite": float("nan")}})


def unpack(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS))
    return found


def test_the_answers_come_back_whatever_is_in_them(page: str) -> None:
    found = unpack(Elements(page).read("script", id="answers"))
    assert found["start"] == SUBJECT.page
    answer = found["answers"][SUBJECT.answer]
    assert answer["text"].replace("?", "\ud800") == HOSTILE
    assert answer["not finite"] is None


def test_the_texts_are_in_no_other_place(page: str) -> None:
    elements = Elements(page)
    scripts = [attributes.get("type") for tag, attributes, _ in elements.found if tag == "script"]
    assert scripts == ["importmap", "application/octet-stream", "module"]
    assert not [tag for tag, _, _ in elements.found if tag in ("img", "iframe", "object", "a")]
    assert elements.read("title") == SUBJECT.file_name


def test_nothing_is_fetched(page: str) -> None:
    for tag, attributes, _ in Elements(page).found:
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith("data:"), tag


def test_the_policy_allows_the_scripts_and_the_style_of_the_page_alone(page: str) -> None:
    elements = Elements(page)
    (text,) = [attributes["content"] for tag, attributes, _ in elements.found if attributes.get("http-equiv")]
    policy = dict(part.split(" ", 1) for part in (text or "").split("; "))
    assert policy["default-src"] == "'none'"
    assert "connect-src" not in policy
    hashes = [digest(elements.read("script", type=kind)) for kind in ("importmap", "module")]
    assert policy["script-src"].split() == ["data:", *hashes]
    assert policy["style-src"] == digest(elements.read("style"))


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def test_every_module_of_the_pages_is_there_under_the_name_that_imports_it(page: str) -> None:
    names = json.loads(Elements(page).read("script", type="importmap"))["imports"]
    sources = {name: base64.b64decode(text.partition(",")[2]).decode() for name, text in names.items()}
    assert {f"viewer/{path}" for path in (MAIN, *PAGES)} <= set(sources)
    code = {name: re.sub(r"/\*.*?\*/|^\s*//.*$", "", text, flags=re.DOTALL | re.MULTILINE) for name, text in sources.items()}
    imported = {found for text in code.values() for found in re.findall(r"""\bfrom\s*["']([^"']+)["']""", text)}
    assert imported <= set(sources)


def test_an_import_is_renamed_where_it_stands() -> None:
    text = 'import{h as e}from"./preact.js";import "../a.js";\nexport { b } from \'./b.js\';\n'
    text += 'const c = () => import("./pages/c.js");'
    found, needed = rewrite(text, "vendor/x.js", frozenset({"vendor/pages/c.js"}))
    assert found == (
        'import{h as e}from"viewer/vendor/preact.js";import "viewer/a.js";\n'
        "export { b } from 'viewer/vendor/b.js';\nconst c = () => import(\"viewer/vendor/pages/c.js\");"
    )
    assert needed == ["vendor/preact.js", "a.js", "vendor/b.js", "vendor/pages/c.js"]


def test_pages_that_the_file_does_not_hold_are_left_alone() -> None:
    assert rewrite('import("./runs.js")', "app/pages/index.js", PAGES) == ('import("./runs.js")', [])


def test_a_module_that_does_not_exist_is_named() -> None:
    with pytest.raises(Missing, match=r"app/nothing\.js"):
        Modules(PAGES).add("app/nothing.js")


def test_no_style_sheet_reads_another_file() -> None:
    for sheet in Path(str(static_root())).rglob("*.css"):
        assert not re.findall(r"@import|url\((?!['\"]?(?:data:|#))", sheet.read_text(encoding="utf-8")), sheet


@given(st.text())
def test_addresses_are_written_as_browsers_write_them(text: str) -> None:
    plain = "ABCdef019-_."
    encoded = encode(plain + text)
    assert re.fullmatch(r"(?:[A-Za-z0-9\-_.!~*'()]|%[0-9A-F]{2})*", encoded)
    value = make_address(["r"], task=plain + text).partition("?task=")[2]
    assert re.fullmatch(r"(?:[A-Za-z0-9\-_.*+]|%[0-9A-F]{2})*", value)


def test_some_addresses() -> None:
    assert encode("a b/c!~*'()é") == "a%20b%2Fc!~*'()%C3%A9"
    assert make_address(["r 1", "group"], split="train", step=0, task="a b~!*'()+/") == (
        "api/runs/r%201/group?split=train&step=0&task=a+b%7E%21*%27%28%29%2B%2F"
    )


def test_a_group_is_named_by_split_step_and_task() -> None:
    assert parse_group("r", "train/3/a/b") == GroupSubject(run="r", split="train", step=3, task="a/b")


def make_ask(tokens: int) -> Any:
    asked: list[str] = []

    def ask(address: str) -> dict[str, Any]:
        asked.append(address)
        kind = address.partition("?")[0].rpartition("/")[2]
        if kind == "group":
            shown = [{"call": 1, "messages": [{"cut": {"content": 3}}], "reply": None}]
            return {"siblings": [{"id": "e0", "turns_shown": shown}, {"id": "e1", "turns_shown": []}], "problems": []}
        if kind == "episode":
            paths = [{"leaf": 3, "main": True}, {"leaf": 5, "main": False}]
            cut = {"cut": {"content": 10}}
            turns = [{"call": 0, "messages": [{}, cut], "reply": cut}, {"call": 1, "messages": [{}], "reply": None}]
            calls = [{"index": turn["call"], "turn": turn} for turn in turns]
            return {"id": address.rpartition("=")[2], "paths": paths, "calls": calls, "problems": []}
        return {"tokens": tokens} if kind == "stream" else {"of": address, "filling": "x" * 1000}

    ask.asked = asked  # type: ignore[attr-defined]
    return ask


def test_a_group_carries_the_episodes_the_cut_texts_and_all_tokens_of_its_siblings() -> None:
    found = collect(GroupSubject(run="r", split="train", step=1, task="t"), make_ask(tokens=2049))
    assert list(found)[:3] == [
        "api/runs/r/group?split=train&step=1&task=t",
        "api/runs/r/episode?id=e0",
        "api/runs/r/episode?id=e1",
    ]
    assert "api/runs/r/text?id=e0&call=0&part=messages&message=1" in found
    assert "api/runs/r/text?id=e1&call=0&part=reply" in found
    # Cut in the columns of the group, though not in the page of its episode.
    assert "api/runs/r/text?id=e0&call=1&part=messages&message=0" in found
    chunks = [address for address in found if "/tokens?" in address]
    assert chunks == [
        f"api/runs/r/tokens?id={one}&path={path}&chunk={chunk}" for path in (3, 5) for one in ("e0", "e1") for chunk in (0, 1)
    ]


def test_what_has_no_room_is_named() -> None:
    ask = make_ask(tokens=2048 * 50)
    found = collect(EpisodeSubject(run="r", id="e0"), ask, most=20_000)
    assert sum(len(json.dumps(answer)) for answer in found.values()) < 21_000
    (notice,) = found["api/runs/r/episode?id=e0"]["problems"]
    assert "have no room" in notice
