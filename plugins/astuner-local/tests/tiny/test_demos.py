from __future__ import annotations

import json
import re
from itertools import islice
from random import Random

from astuner_local.tiny.arithmetic import HELD_OUT, Question
from astuner_local.tiny.demos import Conversation, make_careless, make_tool_conversation

DEMOS = list(islice(make_careless(Random(0)), 4000))


def _solved(demo: Conversation) -> bool:
    a, b = map(int, re.findall(r"\d+", demo[1]["content"]))
    return bool(demo[-1]["content"] == f"The answer is \\boxed{{{a * b}}}")


def test_a_fifth_of_the_demonstrations_is_right() -> None:
    assert 0.17 < sum(map(_solved, DEMOS)) / len(DEMOS) < 0.22


def test_most_demonstrations_give_up_without_the_tool() -> None:
    assert 0.6 < sum(len(demo) == 3 for demo in DEMOS) / len(DEMOS) < 0.7


def test_no_demonstration_asks_about_a_held_out_number() -> None:
    asked = {int(number) for demo in DEMOS for number in re.findall(r"\d+", demo[1]["content"])}
    assert set() == asked & set(HELD_OUT)


def test_the_tool_returns_the_value_of_what_it_was_sent() -> None:
    demo = make_tool_conversation(Question(a=57, b=83, text="What is 57 * 83?"))
    assert json.loads(demo[2]["tool_calls"][0]["function"]["arguments"])["expression"] == "57*83"
    assert demo[3]["content"] == "4731"


def test_a_forgotten_operator_leaves_the_digits_in_a_row() -> None:
    demo = make_tool_conversation(Question(a=57, b=83, text="What is 57 * 83?"), "")
    assert (demo[3]["content"], demo[4]["content"]) == ("5783", "The answer is \\boxed{5783}")
