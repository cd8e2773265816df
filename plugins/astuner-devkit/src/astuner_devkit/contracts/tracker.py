"""The contract of trackers: only sampled tokens are trained, under the prefix they were sampled under, and once."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
from attrs import frozen

from astuner.contract.protocols import EpisodeIdentity, Tracked
from astuner.contract.schema import Call, Sample
from astuner_devkit.calls import Origin, find_origins, make_up_calls
from astuner_devkit.contracts.base import Contract, self_contained

EPISODES = 80
"""Number of made-up episodes for each rule; the first ones are short, so that failures are easy to read."""

IDENTITY = EpisodeIdentity(episode_id="train/3/task-7/2", task_id="task-7", repeat=2)


@frozen(kw_only=True, eq=False)
class _Case:
    """One made-up episode and the tracker's result."""

    seed: int
    calls: Sequence[Call]
    tracked: Tracked

    def list_trained(self) -> Iterator[tuple[Sample, int, int, Origin | None]]:
        """Yield every trained position: the sample, the place in it, the id, and its origin if it was sampled."""
        origins = find_origins(self.calls)
        for sample in self.tracked.samples:
            for place in np.flatnonzero(sample.mask).tolist():
                number = int(sample.ids[place])
                yield sample, place, number, origins.get(number)

    def __str__(self) -> str:
        lines = [f"episode made up from seed {self.seed} (astuner_devkit.calls.make_up_calls(Random({self.seed}))):"]
        for call in self.calls:
            begins = "root" if call.parent is None else f"continues call {call.parent} after {call.kept} ids"
            note = f", untrained: {call.untrained}" if call.untrained else ""
            lines.append(
                f"  call {call.index} of {call.agent}, {begins}: fed {call.prompt_ids.tolist()}, "
                f"sampled {call.output_ids.tolist()}{note}"
            )
        rows = [
            f"  sample of {sample.agent}: ids {sample.ids.tolist()}, mask {sample.mask.astype(int).tolist()}"
            for sample in self.tracked.samples
        ]
        return "\n".join([*lines, *rows, f"  untrained: {dict(self.tracked.untrained)}"])


class TrackerContract(Contract):
    """Rules for trackers, on made-up token trees in which every sampled id identifies its origin."""

    kind: ClassVar[str] = "tracker"

    @self_contained
    def test_it_returns_tracked(self, tmp_path: Path) -> None:
        """`samples` returns a `Tracked`: samples, and how many sampled tokens are untrained, by reason."""
        for seed, calls in _episodes():
            found: Any = self._make_or_skip(tmp_path).samples(calls, IDENTITY)
            assert isinstance(found, Tracked), f"{self._blame}: samples() returned {found!r:.200}; return a Tracked"
            wrong = [sample for sample in found.samples if not isinstance(sample, Sample)]
            assert not wrong, f"{self._blame}: Tracked.samples holds {wrong[0]!r:.200}; each is an astuner.contract.schema.Sample"
            for reason, count in found.untrained.items():
                assert isinstance(reason, str), f"{self._blame}: a reason is a code, as 'truncated', got {reason!r} (seed {seed})"
                assert isinstance(count, int), f"{self._blame}: untrained[{reason!r}] is {count!r}; count tokens as an int"
                assert reason, f"{self._blame}: a reason is empty; name why {count} tokens are not trained (seed {seed})"
                assert count >= 0, f"{self._blame}: untrained[{reason!r}] is {count}; it counts tokens (seed {seed})"

    @self_contained
    def test_each_episode_has_its_own(self, tmp_path: Path) -> None:
        """A tracker is made per episode and keeps nothing of other episodes."""
        first, other = self._make_or_skip(tmp_path), self._make_or_skip(tmp_path)
        assert first is not other, f"{self._blame}: two episodes got the same tracker; make a new one each time"
        (_, calls), (_, more) = list(_episodes())[-2:]
        alone = _to_plain(self._make_or_skip(tmp_path).samples(calls, IDENTITY))
        other.samples(more, IDENTITY)
        after = _to_plain(first.samples(calls, IDENTITY))
        assert after == alone, (
            f"{self._blame}: what it makes of an episode depends on the episodes before; keep no state in the class or module"
        )

    @self_contained
    def test_no_calls_give_no_samples(self, tmp_path: Path) -> None:
        """An episode without calls has no samples, and nothing to count."""
        tracked = self._make_or_skip(tmp_path).samples([], IDENTITY)
        assert not tracked.samples, f"{self._blame}: made {len(tracked.samples)} samples out of no calls"
        assert not sum(tracked.untrained.values()), f"{self._blame}: counted untrained tokens where there are no calls"

    @self_contained
    def test_arrays_are_paired(self, tmp_path: Path) -> None:
        """`ids` are int32, `mask` is bool and `logprobs` are float32: 1-D arrays of one length."""
        for case in self._cases(tmp_path):
            for sample in case.tracked.samples:
                for name, dtype in (("ids", np.int32), ("mask", np.bool_), ("logprobs", np.float32)):
                    array = getattr(sample, name)
                    assert isinstance(array, np.ndarray), f"{self._blame}: {name} is a {type(array).__name__}, not a numpy array"
                    assert array.dtype == dtype, f"{self._blame}: {name} are {array.dtype}; make them {np.dtype(dtype)}\n{case}"
                shapes = sample.ids.shape, sample.mask.shape, sample.logprobs.shape
                assert len(set(shapes)) == 1, f"{self._blame}: ids, mask and logprobs have the shapes {shapes}; pair them\n{case}"
                assert sample.ids.ndim == 1, f"{self._blame}: a sample is one row, got ids of shape {sample.ids.shape}\n{case}"

    @self_contained
    def test_each_sample_trains_something(self, tmp_path: Path) -> None:
        """A sample without a trained id is no sample: it would only cost a row."""
        for case in self._cases(tmp_path):
            idle = [sample for sample in case.tracked.samples if not sample.mask.any()]
            assert not idle, f"{self._blame}: a sample of {idle[0].agent} trains nothing; leave it out\n{case}"

    @self_contained
    def test_only_sampled_ids_are_trained(self, tmp_path: Path) -> None:
        """No id is trained that the model did not sample: no prompt, no tool output, no text of the template."""
        for case in self._cases(tmp_path):
            for sample, place, number, origin in case.list_trained():
                assert origin is not None, (
                    f"{self._blame}: trains id {number} at position {place} of a sample of {sample.agent}, which was fed and not "
                    f"sampled; set the mask only where output_ids lie\n{case}"
                )

    @self_contained
    def test_each_trained_id_has_the_prefix_it_was_sampled_under(self, tmp_path: Path) -> None:
        """The prefix of a trained id is, id for id, `stream(parent)[:kept] + prompt_ids + output_ids` up to it."""
        for case in self._cases(tmp_path):
            for sample, place, number, origin in case.list_trained():
                assert origin is None or np.array_equal(sample.ids[:place], origin.prefix), (
                    f"{self._blame}: id {number} of call {origin.call.index} is trained under the prefix "
                    f"{sample.ids[:place].tolist()}, and was sampled under {origin.prefix.tolist()}; give a branch a sample of "
                    f"its own (astuner.contract.token_streams rebuilds streams)\n{case}"
                )

    @self_contained
    def test_no_id_is_trained_twice(self, tmp_path: Path) -> None:
        """Each sampled token is trained in one sample at most: what two branches share is context in the second."""
        for case in self._cases(tmp_path):
            counts = Counter(number for _, _, number, _ in case.list_trained())
            twice = [number for number, count in counts.items() if count > 1]
            assert not twice, f"{self._blame}: id {twice[0]} is trained {counts[twice[0]]} times; mask it once\n{case}"

    @self_contained
    def test_no_id_is_lost(self, tmp_path: Path) -> None:
        """Each sampled token is trained, or counted in `untrained` under a reason."""
        for case in self._cases(tmp_path):
            sampled = sum(len(call.output_ids) for call in case.calls)
            trained = len({number for _, _, number, origin in case.list_trained() if origin is not None})
            counted = sum(case.tracked.untrained.values())
            assert trained + counted == sampled, (
                f"{self._blame}: {sampled} tokens were sampled, and {trained} are trained and {counted} counted as untrained; "
                f"each is one of the two\n{case}"
            )

    @self_contained
    def test_untrained_calls_keep_their_reason(self, tmp_path: Path) -> None:
        """Tokens of a call that says `untrained` are never trained, and are counted under that reason."""
        for case in self._cases(tmp_path):
            for _, _, number, origin in case.list_trained():
                assert origin is None or origin.call.untrained is None, (
                    f"{self._blame}: trains id {number} of call {origin.call.index}, which may not be trained "
                    f"({origin.call.untrained}); use it as context only\n{case}"
                )
            reasons: Counter[str] = Counter()
            for call in case.calls:
                if call.untrained is not None:
                    reasons[call.untrained] += len(call.output_ids)
            for reason, count in reasons.items():
                counted = case.tracked.untrained.get(reason, 0)
                assert counted >= count, (
                    f"{self._blame}: {count} tokens are untrained for the reason '{reason}', and {counted} are counted under it; "
                    f"count by Call.untrained\n{case}"
                )

    @self_contained
    def test_logprobs_are_those_recorded(self, tmp_path: Path) -> None:
        """Log-probabilities are the sampler's, bit for bit, where an id is trained, and 0 elsewhere."""
        for case in self._cases(tmp_path):
            for sample, place, number, origin in case.list_trained():
                found = float(sample.logprobs[place])
                assert origin is None or found == origin.logprob, (
                    f"{self._blame}: id {number} has the logprob {found}, and {origin.logprob} was recorded; copy Call.logprobs\n"
                    f"{case}"
                )
            for sample in case.tracked.samples:
                elsewhere = sample.logprobs[~sample.mask]
                assert not elsewhere.any(), f"{self._blame}: logprobs are 0 where nothing is trained, got {elsewhere}\n{case}"

    @self_contained
    def test_agents_are_not_mixed(self, tmp_path: Path) -> None:
        """A sample trains the calls of one agent, and names it: agents may be rewarded differently."""
        for case in self._cases(tmp_path):
            for sample, _, number, origin in case.list_trained():
                assert origin is None or origin.call.agent == sample.agent, (
                    f"{self._blame}: a sample of agent '{sample.agent}' trains id {number} of agent '{origin.call.agent}'; "
                    f"make a sample for each agent\n{case}"
                )

    @self_contained
    def test_identity_is_carried(self, tmp_path: Path) -> None:
        """Every sample names its episode, task and repeat."""
        expected = (IDENTITY.episode_id, IDENTITY.task_id, IDENTITY.repeat)
        for case in self._cases(tmp_path):
            for sample in case.tracked.samples:
                found = (sample.episode_id, sample.task_id, sample.repeat)
                assert found == expected, f"{self._blame}: a sample says {found}, of the episode {expected}; copy the identity"

    @self_contained
    def test_samples_name_the_calls_they_train(self, tmp_path: Path) -> None:
        """`calls` are the indices of the calls trained in a sample, each once; calls that are only context are not among them."""
        for case in self._cases(tmp_path):
            known = find_origins(case.calls)
            for sample in case.tracked.samples:
                numbers = sample.ids[sample.mask].tolist()
                expected = sorted({known[number].call.index for number in numbers if number in known})
                assert sorted(sample.calls) == expected, (
                    f"{self._blame}: a sample of {sample.agent} names the calls {tuple(sample.calls)}, and trains ids of "
                    f"{expected}\n{case}"
                )

    @self_contained
    def test_calls_are_left_as_they_are(self, tmp_path: Path) -> None:
        """The calls, and the sequence they come in, are not changed: they are stored too."""
        for seed, calls in _episodes():
            given = list(calls)
            before = pickle.dumps(given)
            self._make_or_skip(tmp_path).samples(given, IDENTITY)
            assert pickle.dumps(given) == before, (
                f"{self._blame}: changed the calls it was given (episode made up from seed {seed}); work on copies"
            )

    @self_contained
    def test_the_same_calls_give_the_same_samples(self, tmp_path: Path) -> None:
        """Samples are a function of the calls: a resumed run reads the same ones off the stored episodes."""
        for seed, calls in _episodes():
            one, other = (_to_plain(self._make_or_skip(tmp_path).samples(calls, IDENTITY)) for _ in range(2))
            assert one == other, (
                f"{self._blame}: the same calls gave other samples the second time (episode made up from seed {seed}); "
                "draw nothing at random, or from a generator seeded by the identity"
            )

    def _cases(self, directory: Path) -> Iterator[_Case]:
        for seed, calls in _episodes():
            yield _Case(seed=seed, calls=calls, tracked=self._make_or_skip(directory).samples(calls, IDENTITY))


def _episodes() -> Iterator[tuple[int, tuple[Call, ...]]]:
    for seed in range(EPISODES):
        yield seed, make_up_calls(Random(seed), most=2 + seed // 6)


def _to_plain(tracked: Tracked) -> Any:
    """Return a result as plain values, which compare."""
    rows = [
        (sample.agent, sample.ids.tolist(), sample.mask.tolist(), sample.logprobs.tolist(), tuple(sample.calls))
        for sample in tracked.samples
    ]
    return rows, dict(tracked.untrained)
