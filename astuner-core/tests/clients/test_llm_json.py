"""JSON found in what models say, checked, and asked for again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen
from attrs.validators import ge, le
from hypothesis import given
from hypothesis import strategies as st

from astuner.clients.llm import LLMClient, LLMFailed
from astuner.clients.llm_endpoint import find_endpoint
from astuner.clients.llm_json import ask_for_json, find_object, parse_answer
from astuner.clients.llm_options import LLMOptions
from astuner.testing.scripted_api import Script, scripted_api


@frozen(kw_only=True)
class Score:
    score: float = field(validator=[ge(0), le(1)])
    rationale: str = ""


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def asked(script: Script | str, **more: Any) -> tuple[Score, list[Any]]:
    with scripted_api(script) as api:
        llm = LLMClient(find_endpoint(api.environ, "the test"), "big")
        found, _ = asyncio.run(ask_for_json(llm, [{"role": "user", "content": "Score it."}], Score, max_tokens=99, **more))
        return found, api.bodies


@pytest.mark.parametrize(
    "text",
    [
        '{"score": 0.5, "rationale": "so so"}',
        'Well.\n```json\n{"score": 0.5, "rationale": "so so"}\n```\nThat is it.',
        'The form is {"score": 1}; my answer: {"score": 0.5, "rationale": "so so"} as asked',
        '{"score": 0.5, "rationale": "so so", "mood": "good"}',
    ],
    ids=["bare", "fenced", "last of two", "a key too many"],
)
def test_an_object_is_found_in_what_is_said(text: str) -> None:
    assert parse_answer(text, Score) == Score(score=0.5, rationale="so so")


@given(st.dictionaries(st.text(), JSON_VALUES), st.text(alphabet="ab \n.:,"), st.text(alphabet="ab \n.:,"))
def test_any_object_is_found_between_words(value: dict[str, Any], before: str, after: str) -> None:
    assert find_object(f"{before}{json.dumps(value)}{after}") == value
    assert find_object(f"{before}\n```json\n{json.dumps(value)}\n```\n{after}") == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("I cannot do that.", "it holds no JSON object"),
        ('{"score": ' + "[" * 100_000, "it holds no JSON object"),
        ('{"score": "0.5"}', r"answer\.score"),
        ('{"score": 2}', r"answer\.score"),
        ('{"rationale": "no score"}', "score"),
        ('[{"score": 1}', None),
    ],
)
def test_what_is_wrong_is_said(text: str, why: str | None) -> None:
    if why is None:
        assert parse_answer(text, Score) == Score(score=1.0)
        return
    with pytest.raises(ValueError, match=why):
        parse_answer(text, Score)


def test_a_model_is_shown_what_was_wrong_and_asked_again() -> None:
    found, bodies = asked(lambda body, number: '{"score": 0.5}' if number else "about a half")
    assert found == Score(score=0.5)
    roles = [message["role"] for message in bodies[1]["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert "it holds no JSON object" in bodies[1]["messages"][-1]["content"]


def test_garbage_to_the_end_is_a_failure_that_quotes_it() -> None:
    with pytest.raises(LLMFailed, match=r"in 2 attempts: it holds no JSON object; the last was 'no'"):
        asked("no", attempts=2)


def test_answers_of_no_use_are_not_kept(tmp_path: Path) -> None:
    with scripted_api(lambda body, number: "warming up" if number < 2 else '{"score": 0.5}') as api:
        llm = LLMOptions(cache="a.sqlite").make_client("the test", model="big", config_dir=tmp_path, environ=api.environ)

        def once() -> Score:
            found, _ = asyncio.run(
                ask_for_json(llm, [{"role": "user", "content": "Score it."}], Score, max_tokens=99, attempts=2)
            )
            return found

        with pytest.raises(LLMFailed):
            once()
        assert once() == once() == Score(score=0.5)
    assert len(api.bodies) == 3
