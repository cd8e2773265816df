from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from astuner.contract.protocols import PlayedTask, TaskDraw
from astuner.episodes.rollout.sampler import Uniform
from astuner_devkit.contracts import Contract, SamplerContract, list_rules, run_contract


class TestUniform(SamplerContract):
    component = Uniform


class FewestVisits:
    """A good sampler."""

    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        return sorted(draw.tasks, key=lambda task: (state.get(task, 0), draw.rng.random()))[: draw.count]

    def observe(self, played: Sequence[PlayedTask], state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**state, **{one.task_id: state.get(one.task_id, 0) + 1 for one in played}}


class WithoutState(FewestVisits):
    def choose(self, draw: TaskDraw) -> Sequence[str]:  # type: ignore[override]
        return draw.tasks


class ObservesNothing(FewestVisits):
    observe = None  # type: ignore[assignment]


class AllOfThem(FewestVisits):
    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        return draw.tasks


class TheSameAgain(FewestVisits):
    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        return [draw.tasks[0]] * draw.count


class Remembered(FewestVisits):
    """Plays known tasks, whether there still are any or not."""

    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        return [*state, *(task for task in draw.tasks if task not in state)][: draw.count]


class ByNumber(FewestVisits):
    def observe(self, played: Sequence[PlayedTask], state: Mapping[str, Any]) -> Mapping[str, Any]:
        numbers: dict[Any, Any] = {int(one.task_id.removeprefix("task-")): 1 for one in played}
        return {**state, **numbers}


class KeepsGroups(FewestVisits):
    def observe(self, played: Sequence[PlayedTask], state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**state, "played": list(played)}


class Chance(FewestVisits):
    rng = Random(1)

    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        return self.rng.sample(draw.tasks, draw.count)


class Hoarder(FewestVisits):
    """Keeps what it knows in itself."""

    def __init__(self) -> None:
        self.visits: dict[str, int] = {}

    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        return super().choose(draw, self.visits)

    def observe(self, played: Sequence[PlayedTask], state: Mapping[str, Any]) -> Mapping[str, Any]:
        self.visits = dict(super().observe(played, self.visits))
        return {}


class InPlace(FewestVisits):
    def observe(self, played: Sequence[PlayedTask], state: Any) -> Mapping[str, Any]:
        state.update(super().observe(played, state))
        return dict(state)


BAD = [
    ("test_it_is_a_sampler", WithoutState, "core calls choose(draw, state), but its signature differs"),
    ("test_it_is_a_sampler", ObservesNothing, "has no method `observe`"),
    ("test_it_chooses_what_can_be_played", AllOfThem, "asked for 2 of task-0, task-1"),
    ("test_it_chooses_what_can_be_played", TheSameAgain, "it returned ['task-0', 'task-0']"),
    ("test_it_chooses_what_can_be_played", Remembered, "choose among `draw.tasks` only"),
    ("test_its_state_is_json", ByNumber, "after it was written as JSON and read again"),
    ("test_its_state_is_json", KeepsGroups, "return plain JSON values"),
    ("test_the_same_state_gives_the_same", Chance, "draw with `draw.rng` only"),
    ("test_the_same_state_gives_the_same", Hoarder, "keep everything in the state"),
    ("test_what_it_is_given_stays_as_it_is", InPlace, "in place: return a new one"),
]


def contract_of(sampler: type) -> type[SamplerContract]:
    return type("Bad", (SamplerContract,), {"component": sampler})


@pytest.mark.parametrize(("rule", "sampler", "words"), BAD)
def test_a_bad_sampler_breaks_its_rule(rule: str, sampler: type, words: str) -> None:
    outcome = next(outcome for outcome in run_contract(contract_of(sampler)) if outcome.rule == rule)
    assert (outcome.status, words in outcome.message) == ("failed", True), outcome


def test_each_rule_has_a_bad_sampler() -> None:
    assert {rule for rule, _, _ in BAD} == set(list_rules(SamplerContract)) - set(list_rules(Contract))


def test_a_good_sampler_keeps_all_rules() -> None:
    assert {"passed"} == {outcome.status for outcome in run_contract(contract_of(FewestVisits))}


def test_all_rules_of_samplers_need_nothing_from_the_author() -> None:
    own = set(list_rules(SamplerContract)) - set(list_rules(Contract))
    assert own <= set(list_rules(SamplerContract, only_self_contained=True))
