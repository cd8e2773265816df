from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_gepa.prompts import Prompt, PromptRewriter

USER = {"role": "user", "content": "2+2?"}


def system(text):
    return {"role": "system", "content": text}


def place(prompt, text, *messages):
    return [message["content"] for message in prompt.place(messages, text)]


WHOLE = Prompt(agent="agent", seed="Be brief.")
PART = Prompt(agent="agent", seed="Be brief.", part=True)
FRONT = Prompt(agent="agent", seed="")


def test_a_whole_system_message_is_replaced():
    assert place(WHOLE, "Be kind.", system("Be brief."), USER) == ["Be kind.", "2+2?"]


def test_only_a_system_message_that_is_the_seed_is():
    assert place(WHOLE, "Be kind.", system("Be brief. Or not."), {"role": "user", "content": "Be brief."}) == [
        "Be brief. Or not.",
        "Be brief.",
    ]


def test_a_part_is_replaced_where_it_is():
    assert place(PART, "Be kind.", system("Task 7. Be brief. Now."), USER) == ["Task 7. Be kind. Now.", "2+2?"]


def test_a_shorter_text_that_the_message_has_already_is_still_put_in_place_of_the_part():
    assert place(PART, "Be", system("Task 7. Be brief."), USER) == ["Task 7. Be", "2+2?"]


def test_a_later_system_message_is_replaced_too():
    assert place(WHOLE, "Be kind.", system("Rules."), system("Be brief."), USER) == ["Rules.", "Be kind.", "2+2?"]


def test_a_text_is_added_in_front():
    assert place(FRONT, "Be kind.", USER) == ["Be kind.", "2+2?"]
    assert place(FRONT, "Be kind.", system("Task 7."), USER) == ["Be kind.\n\nTask 7.", "2+2?"]


def test_an_empty_text_adds_nothing():
    assert place(FRONT, "", USER) == ["2+2?"]
    assert place(FRONT, "", system("Task 7."), USER) == ["Task 7.", "2+2?"]


def test_an_empty_text_may_replace_another():
    assert place(WHOLE, "", system("Be brief."), USER) == ["", "2+2?"]


def test_raw_prompts_have_no_messages_to_change():
    assert FRONT.place((), "Be kind.") == ()


@pytest.mark.parametrize("prompt", [WHOLE, PART, FRONT])
@given(text=st.sampled_from(["Be kind.", "Be brief. Be kind.", "Never. Be brief. Never.", "Be brief."]))
def test_what_is_rewritten_already_stays_as_it_is(prompt, text):
    """A conversation may go on from a stored response, which holds what was sent."""
    sent = system("Be brief." if prompt is WHOLE else "Task 7. Be brief.")
    once = prompt.place((sent, USER), text)
    assert prompt.place(once, text) == once


def test_each_agent_has_its_own_text_and_others_are_left_alone():
    rewriter = PromptRewriter(prompts=(WHOLE, Prompt(agent="critic", seed="Doubt.")), texts={"agent": "A", "critic": "C"})
    rewriter = pickle.loads(pickle.dumps(rewriter))
    assert [one["content"] for one in rewriter("critic", (system("Doubt."), USER))] == ["C", "2+2?"]
    assert [one["content"] for one in rewriter("agent", (system("Be brief."), USER))] == ["A", "2+2?"]
    assert [one["content"] for one in rewriter("other", (system("Be brief."), USER))] == ["Be brief.", "2+2?"]
