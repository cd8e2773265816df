"""Prompts in files, whose slots are checked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from astuner.contract.errors import DataError
from astuner.shared.clients.prompts import Prompt, fill_prompt, load_prompt, load_user_prompt


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a package with one prompt."""
    directory = tmp_path / "package_with_a_prompt" / "prompts"
    directory.mkdir(parents=True)
    (directory.parent / "__init__.py").touch()
    (directory / "numbered.en.txt").write_text("Answer {{number}}:\n{{answer}}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, directory.parent.name, raising=False)
    load_prompt.cache_clear()
    return directory.parent.name


def test_a_prompt_of_a_package_takes_exactly_its_slots(package: str) -> None:
    assert fill_prompt(package, "numbered", "en", number="1", answer="x") == "Answer 1:\nx"
    with pytest.raises(ValueError, match=r"numbered\.en\.txt: no value for answer; there are number"):
        fill_prompt(package, "numbered", "en", number="1")
    with pytest.raises(ValueError, match="has no slot score; there are answer, number"):
        fill_prompt(package, "numbered", "en", number="1", answer="x", score="1")


def test_the_version_of_a_prompt_changes_with_its_file(package: str, tmp_path: Path) -> None:
    version = load_prompt(package, "numbered", "en").version
    assert version.startswith("numbered.en@")
    (tmp_path / package / "prompts" / "numbered.en.txt").write_text("{{answer}}")
    load_prompt.cache_clear()
    assert load_prompt(package, "numbered", "en").version != version


def test_slots_are_filled_once_so_that_a_value_cannot_have_slots() -> None:
    template = Prompt("{{one}} and {{two}}", "made up")
    assert template.fill({"one": "{{two}}", "two": "{{one}} {{/x}}"}) == "{{two}} and {{one}} {{/x}}"


def test_a_section_is_left_out_where_its_slot_is_empty() -> None:
    template = Prompt("a\n{{#more}}\nMore: {{more}}\n{{#most}}\n{{most}}\n{{/most}}\n{{/more}}\nz", "made up")
    assert template.fill({"more": "", "most": "x"}) == "a\nz"
    assert template.fill({"more": "b", "most": ""}) == "a\nMore: b\nz"
    assert template.fill({"more": "b", "most": "c"}) == "a\nMore: b\nc\nz"


def own(directory: Path, text: str | bytes) -> Prompt:
    file = directory / "mine.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_user_prompt(file, "judge 'llm': prompt_file", required=("answer",), known=("answer", "query"))


def test_an_own_prompt_may_leave_out_what_is_not_needed(tmp_path: Path) -> None:
    assert own(tmp_path, 'Is {{answer}} good? {"score": 1} {{').slots == {"answer"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{{answer}} {{anwser}}", r"no such slot: anwser; there are \{\{answer\}\}, \{\{query\}\}"),
        ("{{query}}", "lacks the slot answer"),
        ("{{#answer}}x{{/answer}}", r"lacks the slot answer"),
        ("{{#query}} {{answer}}", r"every \{\{#name\}\} needs its \{\{/name\}\}"),
        ("{{answer}} {{/query}}", r"every \{\{#name\}\} needs its \{\{/name\}\}"),
        (b"\xff{{answer}}", "cannot be read as text in UTF-8"),
    ],
)
def test_an_own_prompt_that_cannot_serve_names_its_key_and_file(tmp_path: Path, text: str | bytes, told: str) -> None:
    with pytest.raises(DataError, match=rf"judge 'llm': prompt_file: .*mine\.txt: {told}"):
        own(tmp_path, text)


def test_an_own_prompt_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.txt: cannot be read"):
        load_user_prompt(tmp_path / "none.txt", "prompt_file", required=(), known=())
