"""Each rule of the trackers' contract is broken by a tracker that does one thing wrong."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import evolve, field, frozen

from astuner.contract.protocols import EpisodeIdentity, Tracked
from astuner.contract.schema import Call, Sample
from astuner.contract.token_streams import find_stretches, index_calls
from astuner.episodes.builtin.trackers.path_rows import make_sample, take_row
from astuner.episodes.builtin.trackers.timeline import TimelineTracker
from astuner_devkit.contracts import Contract, list_rules, run_contract
from astuner_devkit.contracts.tracker import TrackerContract


class Spoilt:
    """The timeline tracker, and then one thing that goes wrong."""

    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Any:
        return self.spoil(TimelineTracker().samples(calls, identity), calls)

    def spoil(self, tracked: Tracked, calls: Sequence[Call]) -> Any:
        return evolve(tracked, samples=[self.spoil_row(row) for row in tracked.samples])

    def spoil_row(self, row: Sample) -> Sample:
        return row


class BareList(Spoilt):
    def spoil(self, tracked: Tracked, calls: Sequence[Call]) -> Any:
        return list(tracked.samples)


class RowsOfIds(Spoilt):
    def spoil(self, tracked: Tracked, calls: Sequence[Call]) -> Any:
        return evolve(tracked, samples=[row.ids for row in tracked.samples])


class Reasons(Spoilt):
    """Counts under a strange reason, or strangely."""

    untrained: Any

    def spoil(self, tracked: Tracked, calls: Sequence[Call]) -> Any:
        return evolve(tracked, untrained=self.untrained)


class NamelessReason(Reasons):
    untrained: ClassVar[Any] = {"": 0}


class NoReason(Reasons):
    untrained: ClassVar[Any] = {None: 1}


class CountsInHalves(Reasons):
    untrained: ClassVar[Any] = {"aborted": 0.5}


class CountsBackwards(Reasons):
    untrained: ClassVar[Any] = {"aborted": -1}


class Remembers(Spoilt):
    seen: ClassVar[list[Any]] = []

    def spoil(self, tracked: Tracked, calls: Sequence[Call]) -> Any:
        self.seen.append(calls)
        return tracked if len(self.seen) == 1 else Tracked(samples=[])


class Shared(Spoilt):
    one: ClassVar[Any] = None

    @classmethod
    def from_run(cls, options: Any, run_info: Any) -> Any:
        cls.one = cls.one or cls()
        return cls.one


class CountsNothing(Spoilt):
    def spoil(self, tracked: Tracked, calls: Sequence[Call]) -> Any:
        return tracked if calls else Tracked(samples=[], untrained={"no_calls": 1})


class SampleOfNothing(Spoilt):
    def spoil(self, tracked: Tracked, calls: Sequence[Call]) -> Any:
        return tracked if calls else Tracked(samples=["a row"])  # type: ignore[list-item]


class PlainLists(Spoilt):
    def spoil_row(self, row: Sample) -> Sample:
        return evolve(row, ids=row.ids.tolist())


class Tables(Spoilt):
    def spoil_row(self, row: Sample) -> Sample:
        return evolve(row, ids=row.ids[None], mask=row.mask[None], logprobs=row.logprobs[None])


class WideIds(Spoilt):
    def spoil_row(self, row: Sample) -> Sample:
        return evolve(row, ids=row.ids.astype(np.int64))


class OneLogprobShort(Spoilt):
    def spoil_row(self, row: Sample) -> Sample:
        return evolve(row, logprobs=row.logprobs[:-1])


class IdleRow(Spoilt):
    def spoil(self, tracked: Tracked, calls: Sequence[Call]) -> Any:
        idle = [
            evolve(row, mask=np.zeros_like(row.mask), logprobs=np.zeros_like(row.logprobs), calls=()) for row in tracked.samples
        ]
        return evolve(tracked, samples=[*tracked.samples, *idle])


class TrainsPrompts(Spoilt):
    def spoil_row(self, row: Sample) -> Sample:
        return evolve(row, mask=np.ones_like(row.mask))


class StringsAllTogether:
    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Tracked:
        ids = np.concatenate([np.concatenate((call.prompt_ids, call.output_ids)) for call in calls])
        mask = np.concatenate(
            [np.concatenate((np.zeros(len(call.prompt_ids), bool), np.ones(len(call.output_ids), bool))) for call in calls]
        )
        row = Sample(
            episode_id=identity.episode_id,
            task_id=identity.task_id,
            repeat=identity.repeat,
            agent=calls[0].agent,
            ids=ids,
            mask=mask,
            logprobs=np.zeros(len(ids), np.float32),
            calls=tuple(call.index for call in calls),
        )
        return Tracked(samples=[row])


class TrainsSharedPrefixesAgain:
    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Tracked:
        known = index_calls(calls)
        rows = [take_row(find_stretches(known, index), {}) for index in known]
        return Tracked(samples=[make_sample(row, identity) for row in rows if row is not None])


class LosesBranches(Spoilt):
    def spoil(self, tracked: Tracked, calls: Sequence[Call]) -> Any:
        return evolve(tracked, samples=tracked.samples[:1])


class TrainsEverything:
    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Tracked:
        return TimelineTracker().samples([evolve(call, untrained=None) for call in calls], identity)


class OneReasonForAll(Spoilt):
    def spoil(self, tracked: Tracked, calls: Sequence[Call]) -> Any:
        return evolve(tracked, untrained={"untrained": sum(tracked.untrained.values())})


class RoundsLogprobs(Spoilt):
    def spoil_row(self, row: Sample) -> Sample:
        return evolve(row, logprobs=row.logprobs.round(2))


class LogprobsOfContext(Spoilt):
    def spoil_row(self, row: Sample) -> Sample:
        return evolve(row, logprobs=np.where(row.mask, row.logprobs, np.float32(-1)))


class OneAgentForAll(Spoilt):
    def spoil(self, tracked: Tracked, calls: Sequence[Call]) -> Any:
        return evolve(tracked, samples=[evolve(row, agent=calls[0].agent) for row in tracked.samples])


class ForgetsTheRepeat(Spoilt):
    def spoil_row(self, row: Sample) -> Sample:
        return evolve(row, repeat=0)


class NamesEveryCall(Spoilt):
    def spoil(self, tracked: Tracked, calls: Sequence[Call]) -> Any:
        every = tuple(call.index for call in calls)
        return evolve(tracked, samples=[evolve(row, calls=every) for row in tracked.samples])


class WorksInPlace(Spoilt):
    def spoil(self, tracked: Tracked, calls: Sequence[Call]) -> Any:
        for call in calls:
            call.logprobs[:] = 0
        return tracked


class Shuffles(Spoilt):
    def spoil(self, tracked: Tracked, calls: Sequence[Call]) -> Any:
        return evolve(tracked, samples=random.sample(list(tracked.samples), len(tracked.samples)))


BAD = [
    ("test_it_returns_tracked", BareList, "return a Tracked"),
    ("test_it_returns_tracked", RowsOfIds, "each is an astuner.contract.schema.Sample"),
    ("test_it_returns_tracked", NamelessReason, "a reason is empty"),
    ("test_it_returns_tracked", NoReason, "a reason is a code"),
    ("test_it_returns_tracked", CountsInHalves, "count tokens as an int"),
    ("test_it_returns_tracked", CountsBackwards, "untrained['aborted'] is -1"),
    ("test_each_episode_has_its_own", Remembers, "keep no state"),
    ("test_each_episode_has_its_own", Shared, "two episodes got the same tracker"),
    ("test_no_calls_give_no_samples", CountsNothing, "counted untrained tokens where there are no calls"),
    ("test_no_calls_give_no_samples", SampleOfNothing, "made 1 samples out of no calls"),
    ("test_arrays_are_paired", PlainLists, "ids is a list, not a numpy array"),
    ("test_arrays_are_paired", Tables, "a sample is one row, got ids of shape"),
    ("test_arrays_are_paired", WideIds, "ids are int64; make them int32"),
    ("test_arrays_are_paired", OneLogprobShort, "pair them"),
    ("test_each_sample_trains_something", IdleRow, "trains nothing; leave it out"),
    ("test_only_sampled_ids_are_trained", TrainsPrompts, "was fed and not sampled"),
    ("test_each_trained_id_has_the_prefix_it_was_sampled_under", StringsAllTogether, "and was sampled under"),
    ("test_no_id_is_trained_twice", TrainsSharedPrefixesAgain, "mask it once"),
    ("test_no_id_is_lost", LosesBranches, "each is one of the two"),
    ("test_untrained_calls_keep_their_reason", TrainsEverything, "which may not be trained"),
    ("test_untrained_calls_keep_their_reason", OneReasonForAll, "0 are counted under it"),
    ("test_logprobs_are_those_recorded", RoundsLogprobs, "was recorded; copy Call.logprobs"),
    ("test_logprobs_are_those_recorded", LogprobsOfContext, "logprobs are 0 where nothing is trained"),
    ("test_agents_are_not_mixed", OneAgentForAll, "make a sample for each agent"),
    ("test_identity_is_carried", ForgetsTheRepeat, "copy the identity"),
    ("test_samples_name_the_calls_they_train", NamesEveryCall, "names the calls"),
    ("test_calls_are_left_as_they_are", WorksInPlace, "changed the calls it was given"),
    ("test_the_same_calls_give_the_same_samples", Shuffles, "gave other samples the second time"),
]


@pytest.mark.parametrize(("rule", "bad", "words"), BAD, ids=[bad.__name__ for _, bad, _ in BAD])
def test_a_bad_tracker_breaks_its_rule(outcome_of: Any, rule: str, bad: type, words: str):
    outcome = outcome_of(TrackerContract, rule, component=bad)
    assert (outcome.status, words in outcome.message) == ("failed", True), outcome.message


def test_every_rule_is_broken_by_a_bad_tracker():
    assert {rule for rule, *_ in BAD} == set(list_rules(TrackerContract)) - set(list_rules(Contract))


def test_a_failure_shows_the_calls_and_the_samples(outcome_of: Any):
    message = outcome_of(TrackerContract, "test_no_id_is_lost", component=LosesBranches).message
    assert "make_up_calls(Random(" in message
    assert "continues call" in message or "root: fed" in message


class TestTimeline(TrackerContract):
    component = "astuner.episodes.builtin.trackers.timeline:TimelineTracker"


class TestLinear(TrackerContract):
    component = "astuner.episodes.builtin.trackers.linear:LinearTracker"


class Chosen:
    @frozen(kw_only=True)
    class Options:
        """Which calls."""

        agent: str = field()
        """The agent to train."""

    def __init__(self, options: Options) -> None:
        self.agent = options.agent

    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Tracked:
        others = [call if call.agent == self.agent else evolve(call, untrained=call.untrained or "other_agent") for call in calls]
        return TimelineTracker().samples(others, identity)


class TestChosen(TrackerContract):
    component = Chosen
    options: ClassVar[dict[str, Any]] = {"agent": "solver"}


def test_a_tracker_whose_options_are_not_given_is_not_judged():
    contract = type("T", (TrackerContract,), {"component": Chosen})
    found = {outcome.rule: outcome for outcome in run_contract(contract, only_self_contained=True)}
    assert found["test_no_id_is_lost"].status == "skipped"
    assert "agent" in found["test_no_id_is_lost"].message
