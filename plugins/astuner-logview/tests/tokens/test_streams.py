from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.protocols import EpisodeIdentity
from astuner.contract.schema import Episode, Task, WorkflowOutput
from astuner.contract.token_streams import stream_ids, stream_length
from astuner.episodes.builtin.trackers.timeline import TimelineTracker
from astuner_devkit.calls import make_up_calls
from astuner_logview.tokens.overview import describe_minimap, find_worst
from astuner_logview.tokens.paths import find_path, list_paths
from astuner_logview.tokens.streams import build_stream
from astuner_logview.trainer_values import CallValues


def make_episode(seed: int) -> Episode:
    calls = make_up_calls(Random(seed))
    tracked = TimelineTracker().samples(calls, EpisodeIdentity(episode_id="train/1/t/0", task_id="t", repeat=0))
    return Episode(
        id="train/1/t/0",
        task=Task(task_id="t"),
        step=1,
        repeat=0,
        output=WorkflowOutput(),
        calls=calls,
        samples=tuple(tracked.samples),
        untrained=tracked.untrained,
    )


@given(seed=st.integers(0, 10_000))
def test_every_path_is_a_stream_of_the_tree(seed: int) -> None:
    episode = make_episode(seed)
    paths = list_paths(episode)
    for path in paths:
        stream = build_stream(episode, find_path(episode, path["leaf"]), None, {}, {})
        assert stream.ids.tolist() == stream_ids(episode.calls, path["leaf"]).tolist()
        assert (len(stream), int(stream.trained.sum())) == (path["tokens"], path["trained"])
        assert [one.start for one in stream.segments] == [0, *[one.end for one in stream.segments]][:-1]
        assert np.isfinite(stream.values["logprob"]).tolist() == stream.sampled.tolist()
    leaves = [path["leaf"] for path in paths]
    assert len(set(leaves)) == len(leaves)
    mains = [path["agent"] for path in paths if path["main"]]
    assert sorted(mains) == sorted({call.agent for call in episode.calls if stream_length(call) and call.index in leaves})


@given(seed=st.integers(0, 10_000))
def test_every_sampled_token_is_trained_or_has_a_reason(seed: int) -> None:
    episode = make_episode(seed)
    for path in list_paths(episode):
        stream = build_stream(episode, find_path(episode, path["leaf"]), None, {}, {})
        for segment in stream.segments:
            if segment.sampled:
                assert (segment.trained < segment.end - segment.start) == (segment.reason is not None)


def test_the_trainer_s_numbers_lie_at_their_tokens() -> None:
    episode = make_episode(3)
    call = next(one for one in episode.calls if len(one.output_ids) > 1 and one.untrained is None)
    size = len(call.output_ids)
    numbers = np.arange(size, dtype=np.float32)
    numbers[-1] = np.nan
    record = CallValues(values={"trainer_logprob": numbers}, clipped=np.ones(size, np.uint8))
    leaf = next(path["leaf"] for path in list_paths(episode) if call.index in path["calls"])
    parts = find_path(episode, leaf)
    stream = build_stream(episode, parts, None, {call.index: record}, {})
    part = next(one for one in parts if one.call.index == call.index)
    first = part.start + part.fed
    found = stream.values["trainer_logprob"][first : first + part.sampled]
    assert np.array_equal(found, numbers[: part.sampled], equal_nan=True)
    assert np.isnan(stream.values["trainer_logprob"][: part.start]).all()
    mismatch = numbers[: part.sampled] - call.logprobs[: part.sampled]
    assert np.array_equal(stream.values["mismatch"][first : first + part.sampled], mismatch, equal_nan=True)


def test_the_minimap_has_the_means_of_its_columns() -> None:
    episode = make_episode(5)
    path = max(list_paths(episode), key=lambda one: one["tokens"])
    stream = build_stream(episode, find_path(episode, path["leaf"]), None, {}, {})
    minimap = describe_minimap(stream)
    assert (minimap["columns"], minimap["width"]) == (len(stream), 1)
    known = [value for value in minimap["of"]["logprob"] if value is not None]
    assert len(known) == int(stream.sampled.sum())
    assert minimap["kind"] == stream.sampled.astype(int).tolist()


def test_the_worst_tokens_are_the_least_likely_ones() -> None:
    episode = make_episode(5)
    path = max(list_paths(episode), key=lambda one: one["tokens"])
    stream = build_stream(episode, find_path(episode, path["leaf"]), None, {}, {})
    values = [one["value"] for one in find_worst(stream)["logprob"]]
    assert values == sorted(stream.values["logprob"][stream.sampled].tolist())[: len(values)]
