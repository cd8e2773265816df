"""Each rule of the extensions' contract is broken by an extension that does one thing wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from attrs import frozen

from astuner import hookimpl
from astuner.contract.hookspecs import SPECS
from astuner.contract.schema import Group
from astuner.settings.plugins.extension import DECIDING
from astuner_devkit.contracts import Contract, list_rules
from astuner_devkit.contracts.hooks import HooksContract, read_examples


class Misspelt:
    @hookimpl
    def astuner_step_finish(self, report: Any) -> None: ...


class AsksForMore:
    @hookimpl
    def astuner_step_finished(self, report: Any, weather: Any) -> None: ...


class Defaults:
    @hookimpl
    def astuner_step_finished(self, report: Any = None) -> None: ...


class Asynchronous:
    @hookimpl
    async def astuner_step_finished(self, report: Any) -> None: ...


class WrapsAnEvent:
    @hookimpl(wrapper=True)
    def astuner_step_finished(self, report: Any) -> Iterator[None]:
        yield


class Idle:
    def report(self) -> None: ...


class Unmarked:
    @hookimpl
    def astuner_notice(self, notice: Any) -> None: ...

    def astuner_step_finished(self, report: Any) -> None: ...


class CountsOnRewards:
    total = 0.0

    @hookimpl
    def astuner_group_judged(self, group: Group) -> None:
        self.total += sum(episode.reward for episode in group.episodes)  # type: ignore[misc]


class CountsOnMetrics:
    @hookimpl
    def astuner_step_finished(self, report: Any) -> None:
        report.metrics["reward/mean"]


class CountsOnOutput:
    @hookimpl
    def astuner_episode_finished(self, episode: Any) -> None:
        episode.output.metadata.get("final_answer")


class ReturnsNone:
    @hookimpl(wrapper=True)
    def astuner_make_reader(self, candidate: Any) -> Any:
        yield


class WrapsALogger:
    @hookimpl(wrapper=True)
    def astuner_make_logger(self, candidate: Any) -> Any:
        made = yield
        return {"logger": made}


class MakesOneTracker:
    @hookimpl(wrapper=True)
    def astuner_make_tracker(self, candidate: Any) -> Any:
        factory = yield
        return factory()


class MakesAnythingAnEngine:
    @hookimpl
    def astuner_make_engine(self, candidate: Any) -> Any:
        return object


class KnowsOnlyItsOwn:
    @hookimpl
    def astuner_make_judge(self, candidate: Any) -> Any:
        return {"strict": object}[candidate.name]


BAD = [
    ("test_every_hook_registers", Misspelt, "did you mean 'astuner_step_finished'?"),
    ("test_every_hook_registers", AsksForMore, "weather"),
    ("test_every_hook_registers", Defaults, "must have no default value"),
    ("test_every_hook_registers", Asynchronous, "write `def`, not `async def`"),
    ("test_every_hook_registers", WrapsAnEvent, "drop wrapper=True"),
    ("test_it_implements_a_hook", Idle, "has no method marked @astuner.hookimpl"),
    ("test_no_hook_is_left_unmarked", Unmarked, "astuner_step_finished is never called"),
    ("test_it_bears_every_event", CountsOnRewards, "raised in astuner_group_judged: TypeError"),
    ("test_it_bears_every_event", CountsOnMetrics, "raised in astuner_step_finished: KeyError"),
    ("test_it_bears_every_event", CountsOnOutput, "raised in astuner_episode_finished: AttributeError"),
    ("test_what_it_makes_is_of_its_kind", ReturnsNone, "a wrapper returned None"),
    ("test_what_it_makes_is_of_its_kind", WrapsALogger, "has no log, log_episodes, close; return a logger"),
    ("test_what_it_makes_is_of_its_kind", MakesOneTracker, "return a function that makes a tracker"),
    ("test_what_it_makes_is_of_its_kind", MakesAnythingAnEngine, "has no start, generate"),
    ("test_what_it_makes_is_of_its_kind", KnowsOnlyItsOwn, "raised in astuner_make_judge: KeyError"),
]


@pytest.mark.parametrize(("rule", "bad", "words"), BAD, ids=[bad.__name__ for _, bad, _ in BAD])
def test_a_bad_extension_breaks_its_rule(outcome_of: Any, rule: str, bad: type, words: str):
    outcome = outcome_of(HooksContract, rule, component=bad)
    assert (outcome.status, words.lower() in outcome.message.lower()) == ("failed", True), outcome.message


def test_every_rule_is_broken_by_a_bad_extension():
    assert {rule for rule, *_ in BAD} == set(list_rules(HooksContract)) - set(list_rules(Contract))


def test_every_deciding_hook_is_asked_for_something():
    deciding = {name.removeprefix(DECIDING) for specs in SPECS for name in vars(specs) if name.startswith(DECIDING)}
    assert deciding == read_examples().keys()


class HearsEverything:
    """Listens to all events, so that each is told at least once."""

    def __init__(self) -> None:
        self.heard: set[str] = set()

    @hookimpl
    def astuner_tasks_read(self, split: str, count: int) -> None:
        self.heard.add("astuner_tasks_read")

    @hookimpl
    def astuner_group_judged(self, group: Any) -> None:
        self.heard.add("astuner_group_judged")

    @hookimpl
    def astuner_run_started(self, run_info: Any, plugins: Sequence[Any]) -> None:
        self.heard.add("astuner_run_started")

    @hookimpl
    def astuner_episode_finished(self, episode: Any) -> None:
        self.heard.add("astuner_episode_finished")

    @hookimpl
    def astuner_step_finished(self, report: Any) -> None:
        self.heard.add("astuner_step_finished")

    @hookimpl
    def astuner_validation_finished(self, report: Any) -> None:
        self.heard.add("astuner_validation_finished")

    @hookimpl
    def astuner_checkpoint_saved(self, step: int, path: Any) -> None:
        self.heard.add("astuner_checkpoint_saved")

    @hookimpl
    def astuner_notice(self, notice: Any) -> None:
        self.heard.add("astuner_notice")

    @hookimpl
    def astuner_run_finished(self, run_info: Any, exit_code: int) -> None:
        self.heard.add("astuner_run_finished")


def test_every_event_is_told(outcome_of: Any):
    extension = HearsEverything()
    assert outcome_of(HooksContract, "test_it_bears_every_event", component=extension).status == "passed"
    events = {name for specs in SPECS for name in vars(specs) if name.startswith("astuner_")}
    assert extension.heard == {name for name in events if not name.startswith(DECIDING)}


class WrapsAll:
    """Lets every component through its hands."""

    @frozen(kw_only=True)
    class Options:
        """What it is asked."""

        colour: str
        """Of its hands."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @hookimpl(wrapper=True)
    def astuner_make_reader(self, candidate: Any) -> Any:
        return (yield)

    @hookimpl(wrapper=True)
    def astuner_make_judge(self, candidate: Any) -> Any:
        return (yield)

    @hookimpl(wrapper=True)
    def astuner_make_tracker(self, candidate: Any) -> Any:
        return (yield)

    @hookimpl(wrapper=True)
    def astuner_make_engine(self, candidate: Any) -> Any:
        return (yield)

    @hookimpl(wrapper=True)
    def astuner_make_logger(self, candidate: Any) -> Any:
        return (yield)

    @hookimpl(wrapper=True)
    def astuner_make_backbone(self, candidate: Any) -> Any:
        return (yield)


class TestObject(HooksContract):
    component = HearsEverything()


class TestClassWithOptions(HooksContract):
    component = WrapsAll
    options = {"colour": "green"}  # noqa: RUF012


def test_an_extension_that_declines_leaves_it_to_core(outcome_of: Any):
    class Declines:
        @hookimpl
        def astuner_make_tracker(self, candidate: Any) -> None:
            return None

    assert outcome_of(HooksContract, "test_what_it_makes_is_of_its_kind", component=Declines).status == "passed"
