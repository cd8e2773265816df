"""Shared parts of the judges that ask an LLM."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files

import pytest

from astuner.shared.clients.llm import ContentFailure, LLMFailed
from astuner.shared.clients.llm_budget import LLMBudgetSpent
from astuner_judges.asking import explain_failure, fence_rule


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_rule_of_fences_shows_their_form(language: str) -> None:
    assert "</answer-0123456789abcdef>" in fence_rule(language)  # type: ignore[arg-type]


def test_every_prompt_is_there_in_both_languages_with_the_same_slots() -> None:
    for package in ("astuner_judges.llm", "astuner_judges.asking"):
        found = {path.name: path for path in files(package).joinpath("prompts").iterdir()}
        assert found
        for name, path in found.items():
            twin = found[name.replace(".en.", ".zh.") if ".en." in name else name.replace(".zh.", ".en.")]
            slots = [Counter(re.findall(r"\{\{.*?\}\}", file.read_text(encoding="utf-8"))) for file in (path, twin)]
            assert slots[0] == slots[1], name


def test_a_failure_has_its_reason() -> None:
    failures = LLMFailed("x"), ContentFailure("x"), LLMBudgetSpent("x")
    assert [explain_failure(failure).reason for failure in failures] == ["llm_failed", "llm_no_verdict", "llm_budget"]
