from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import frozen

from astuner.contract.protocols import Sampled
from astuner_devkit.contracts import Contract, DetectorContract, list_rules, run_contract
from astuner_devkit.sampled_answers import make_sampled


class Shouting:
    """A good detector."""

    def look(self, output: Sampled) -> Any:
        return "it shouts: STOP" if "STOP" in output.text else None


class TakesNothing(Shouting):
    def look(self) -> Any:  # type: ignore[override]
        return None


class IsAsync(Shouting):
    async def look(self, output: Sampled) -> Any:  # type: ignore[override]
        return None


class DislikesUnicode(Shouting):
    def look(self, output: Sampled) -> Any:
        return None if output.text.isascii() else "not ASCII"


class SaysYes(Shouting):
    def look(self, output: Sampled) -> Any:
        return "STOP" in output.text


class SaysEverything(Shouting):
    def look(self, output: Sampled) -> Any:
        return output.text * 300 if "STOP" in output.text else None


class CountsCalls(Shouting):
    seen = 0

    def look(self, output: Sampled) -> Any:
        self.seen += 1
        return f"{super().look(output)} ({self.seen})" if super().look(output) else None


class TidiesUp(Shouting):
    def look(self, output: Sampled) -> Any:
        output.call.reply["content"] = ""  # type: ignore[index]
        return super().look(output)


class Deaf(Shouting):
    def look(self, output: Sampled) -> Any:
        return None


BAD = [
    ("test_it_is_a_detector", TakesNothing, "core calls look(output), but its signature differs"),
    ("test_it_is_a_detector", IsAsync, "`look` is not awaited"),
    ("test_ordinary_texts_are_left_alone", DislikesUnicode, "takes an ordinary text (English) for abnormal"),
    ("test_it_answers_with_text_or_nothing", SaysYes, "returned False for ''"),
    ("test_it_answers_with_text_or_nothing", SaysEverything, "of at most 500 characters"),
    ("test_the_same_answer_is_found_the_same", CountsCalls, "keep no state between answers"),
    ("test_the_answer_stays_as_it_is", TidiesUp, "call.reply['content']: 'The answer is 42.' became ''"),
    ("test_what_is_abnormal_is_found", Deaf, "finds nothing in 'STOP'"),
]


def contract_of(detector: type, abnormal: Sequence[Sampled] = ()) -> type[DetectorContract]:
    # Made anew each time: one of the bad ones writes into them.
    return type("Bad", (DetectorContract,), {"component": detector, "abnormal": abnormal or (make_sampled("STOP"),)})


@pytest.mark.filterwarnings("ignore:coroutine 'IsAsync.look'")
@pytest.mark.parametrize(("rule", "detector", "words"), BAD)
def test_a_bad_detector_breaks_its_rule(rule: str, detector: type, words: str) -> None:
    outcome = next(outcome for outcome in run_contract(contract_of(detector)) if outcome.rule == rule)
    assert (outcome.status, words in outcome.message) == ("failed", True), outcome


def test_each_rule_has_a_bad_detector() -> None:
    assert {rule for rule, _, _ in BAD} == set(list_rules(DetectorContract)) - set(list_rules(Contract))


def test_a_good_detector_keeps_all_rules() -> None:
    assert {"passed"} == {outcome.status for outcome in run_contract(contract_of(Shouting))}


def test_without_abnormal_answers_one_rule_waits_for_them() -> None:
    outcomes = run_contract(type("Bare", (DetectorContract,), {"component": Shouting}))
    assert [outcome.rule for outcome in outcomes if outcome.status == "skipped"] == ["test_what_is_abnormal_is_found"]


class Configured(Shouting):
    @frozen(kw_only=True)
    class Options:
        word: str
        """What it looks for."""

    def __init__(self, options: Options) -> None:
        self.options = options


def test_a_detector_that_needs_options_is_not_blamed_where_nobody_gave_any() -> None:
    outcome = run_contract(contract_of(Configured), only_self_contained=True)[-1]
    assert (outcome.status, "it needs options: set `options`" in outcome.message) == ("skipped", True)


def test_made_up_tool_calls_have_arguments_as_text() -> None:
    (call,) = make_sampled("", tool_calls=[("add", {"a": "é"})]).call.reply["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"a": "é"}
