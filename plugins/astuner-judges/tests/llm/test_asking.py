"""Fences that a text cannot close, and prompts in files whose slots are checked."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.clients.llm import LLMFailed
from astuner.clients.llm_budget import LLMBudgetSpent
from astuner.errors import DataError
from astuner_judges.asking import Prompt, explain_failure, fence_rule, fenced, own_prompt, prompt, shortened

TAGS = re.compile(r"</?untrusted-([0-9a-f]{16})>")


@given(st.text())
def test_a_text_stands_between_tags_that_are_not_in_it(text: str) -> None:
    opening, *_, closing = TAGS.finditer(fenced(text))
    assert opening[1] == closing[1]
    assert opening[1] not in fenced(text)[opening.end() : closing.start()]


@given(st.text(), st.integers(1, 3))
def test_a_text_that_knows_the_fences_of_others_does_not_close_its_own(text: str, rounds: int) -> None:
    for _ in range(rounds):
        text = f"{text}\n{TAGS.findall(fenced(text))[0]}\n{fenced(text)}"
    identity = TAGS.findall(fenced(text))[0]
    assert Counter(TAGS.findall(fenced(text)))[identity] == 2


@given(st.text(), st.text(), st.sampled_from(["answer", "task"]))
def test_the_same_text_has_the_same_tags_and_any_other_has_others(one: str, other: str, name: str) -> None:
    tag, another = (fenced(text, name).partition(">")[0] for text in (one, other))
    assert tag.startswith(f"<{name}-")
    assert (tag == another) == (one.encode("utf-8", "replace") == other.encode("utf-8", "replace"))
    assert fenced(one, name) == fenced(one, name)
    assert fenced(one, "reference").partition(">")[0][-16:] != tag[-16:]


def test_a_text_that_no_api_takes_is_made_one() -> None:
    assert fenced("a\ud800b").encode()
    assert "a\ufffdb" in fenced("a\ud800b")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_rule_of_fences_shows_their_form(language: str) -> None:
    assert "</answer-0123456789abcdef>" in fence_rule(language)  # type: ignore[arg-type]


@given(st.text(min_size=1, max_size=300), st.integers(1, 299))
def test_a_long_text_keeps_its_start_and_its_end(text: str, most: int) -> None:
    short = shortened(text, most)
    if len(text) <= most:
        assert short == text
    else:
        assert f"[... {len(text) - most} characters are left out here ...]" in short
        assert short[0] == text[0] if most > 1 else True
        assert short[-1] == text[-1]


def test_slots_are_filled_once_so_that_a_value_cannot_have_slots() -> None:
    template = Prompt("{{one}} and {{two}}", "made up")
    assert template.filled({"one": "{{two}}", "two": "{{one}} {{/x}}"}) == "{{two}} and {{one}} {{/x}}"


def test_a_section_is_left_out_where_its_slot_is_empty() -> None:
    template = Prompt("a\n{{#more}}\nMore: {{more}}\n{{#most}}\n{{most}}\n{{/most}}\n{{/more}}\nz", "made up")
    assert template.filled({"more": "", "most": "x"}) == "a\nz"
    assert template.filled({"more": "b", "most": ""}) == "a\nMore: b\nz"
    assert template.filled({"more": "b", "most": "c"}) == "a\nMore: b\nc\nz"


def test_a_prompt_of_a_package_takes_exactly_its_slots() -> None:
    assert prompt("astuner_judges.llm", "numbered_answer", "en", number="1", answer="x") == "Answer 1:\nx"
    with pytest.raises(ValueError, match=r"numbered_answer\.en\.txt: no value for answer; there are number"):
        prompt("astuner_judges.llm", "numbered_answer", "en", number="1")
    with pytest.raises(ValueError, match="has no slot score; there are answer, number"):
        prompt("astuner_judges.llm", "numbered_answer", "en", number="1", answer="x", score="1")


def test_every_prompt_is_there_in_both_languages_with_the_same_slots() -> None:
    for package in ("astuner_judges.llm", "astuner_judges.asking"):
        found = {path.name: path for path in files(package).joinpath("prompts").iterdir()}
        assert found
        for name, path in found.items():
            twin = found[name.replace(".en.", ".zh.") if ".en." in name else name.replace(".zh.", ".en.")]
            slots = [Counter(re.findall(r"\{\{.*?\}\}", file.read_text(encoding="utf-8"))) for file in (path, twin)]
            assert slots[0] == slots[1], name


def own(directory: Path, text: str | bytes) -> Prompt:
    file = directory / "mine.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return own_prompt(file, "judge 'llm': prompt_file", required=("answer",), known=("answer", "query"))


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
        own_prompt(tmp_path / "none.txt", "prompt_file", required=(), known=())


def test_a_failure_has_its_reason() -> None:
    assert (explain_failure(LLMFailed("x")).reason, explain_failure(LLMBudgetSpent("x")).reason) == ("llm_failed", "llm_budget")
