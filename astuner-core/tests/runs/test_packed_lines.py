"""Lines of the store: calls and samples come back bit for bit, and what an index needs is read without them."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import asdict, evolve
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from stored_conversations import conversation, list_stored

from astuner.contract.schema import Episode, Task, Unjudged, Verdict
from astuner.runs.store import packed_arrays
from astuner.runs.store.codec import decode_episode, dump_episode, encode_episode, encode_record, load_episode
from astuner.runs.store.episode_index import EpisodeIndex, IndexedEpisode
from astuner.runs.store.episode_store import EpisodeFiles, StoredEpisodes, read_episodes
from astuner.runs.store.packed_arrays import pack_bytes, unpack_bytes
from astuner.runs.store.store_lines import UNREADABLE, read_line, read_place, read_records, seal
from astuner_devkit.episodes import episode, group

OLD = Path(__file__).parent / "data" / "arrays_of_numbers.jsonl"

LENGTHS = st.integers(0, 300)
IDS = LENGTHS.flatmap(lambda size: arrays(np.int32, size))
FLOATS = LENGTHS.flatmap(lambda size: arrays(np.float32, size, elements=st.floats(width=32, allow_nan=True)))
TEXTS = st.text(max_size=20) | st.sampled_from(['},"episode":{', '"facts":{', '","arrays":"', "\\", "\n", "\u2028", "🙂"])


def plain(found: Episode) -> str:
    """An episode as text: arrays as bytes with their type."""
    return json.dumps(asdict(found), default=lambda array: [str(array.dtype), array.tobytes().hex()], sort_keys=True)


def encode_arrays(found: Episode) -> bytes:
    """The line of an episode as versions stored it that did not pack its arrays."""
    return encode_record({"kind": "episode", "episode": dump_episode(found)})


def test_a_text_that_holds_far_more_than_its_size_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_arrays, "LARGEST", 1 << 20)
    assert unpack_bytes(pack_bytes(bytes(1 << 20))) == bytes(1 << 20)
    with pytest.raises(ValueError, match=r"holds more than 1,048,576 bytes"):
        unpack_bytes(pack_bytes(bytes((1 << 20) + 1)))
    with pytest.raises(ValueError, match="cut off"):
        unpack_bytes(b64encode(b64decode(pack_bytes(bytes(5000)))[:-4]).decode())


@st.composite
def episodes(draw: st.DrawFn) -> Episode:
    made = episode(draw(st.integers(0, 3)), task=draw(st.sampled_from(["a", "b/c", 'd"}'])), step=draw(st.integers(0, 3)))
    call = evolve(made.calls[0], reply={"role": "assistant", "content": draw(TEXTS)})
    calls = tuple(
        evolve(call, index=index, prompt_ids=draw(IDS), output_ids=draw(IDS), logprobs=draw(FLOATS))
        for index in range(draw(st.integers(0, 2)))
    )
    samples = []
    for _ in range(draw(st.integers(0, 2))):
        ids = draw(IDS)
        mask = draw(arrays(np.bool_, len(ids)))
        logprobs = np.where(mask, draw(arrays(np.float32, len(ids), elements=st.floats(-9, 0, width=32))), np.float32(0))
        samples.append(evolve(made.samples[0], ids=ids, mask=mask, logprobs=logprobs))
    verdict = draw(st.none() | st.just(Verdict(0.5, True)) | st.just(Unjudged(reason="judge_error")))
    output = made.output if draw(st.booleans()) else None
    task = evolve(made.task, main_query=draw(TEXTS), metadata={"arrays": draw(TEXTS), "facts": {"id": 1}})
    return evolve(made, task=task, calls=calls, samples=tuple(samples), verdict=verdict, output=output)


@given(made=episodes())
def test_every_episode_survives_its_line_bit_for_bit(made: Episode):
    line = seal(encode_episode(made))
    assert line.count(b"\n") == 1
    assert plain(load_episode(read_line(line)["episode"])) == plain(made)
    assert plain(decode_episode(encode_episode(made))) == plain(made)


def describe(found: IndexedEpisode) -> dict[str, Any]:
    return {name: value for name, value in asdict(found).items() if "offset" not in name}


@given(made=st.lists(episodes(), max_size=4))
def test_the_facts_in_a_line_are_those_of_the_whole_episode(made: list[Episode], tmp_path_factory: pytest.TempPathFactory):
    home = tmp_path_factory.mktemp("stores")
    found = []
    for name, encode in (("packed", encode_episode), ("arrays", encode_arrays)):
        (home / name).write_bytes(b"".join(seal(encode(one)) for one in made))
        found.append(list(map(describe, EpisodeIndex(home / name))))
    assert found[0] == found[1]
    known = {one.id: (one.completed, one.task.task_id, one.reward, one.is_success) for one in made}
    assert {one["id"]: (one["completed"], one["task_id"], one["reward"], one["is_success"]) for one in found[0]} == known


@pytest.mark.parametrize("made", [conversation(), episode()], ids=["conversation", "one call"])
def test_a_long_line_takes_few_bytes_a_token(made: Episode):
    random = np.random.default_rng(0)
    calls = tuple(
        evolve(
            call,
            prompt_ids=random.integers(0, 50_000, 4000).astype(np.int32),
            output_ids=random.integers(0, 50_000, 4000).astype(np.int32),
            logprobs=-random.random(4000).astype(np.float32),
        )
        for call in made.calls
    )
    tokens = 8000 * len(calls)
    assert len(encode_episode(evolve(made, calls=calls, samples=()))) < 7 * tokens


def test_a_store_of_an_older_version_is_read_as_it_was_written(tmp_path: Path):
    (tmp_path / "train.jsonl").write_bytes(OLD.read_bytes())
    assert list(map(plain, read_episodes(tmp_path, "train"))) == list(map(plain, list_stored()))
    # What a cut has removed is not there.
    assert EpisodeIndex(tmp_path / "train.jsonl").steps == {1, 2}


def test_a_run_resumes_from_a_store_of_an_older_version(tmp_path: Path):
    (tmp_path / "train.jsonl").write_bytes(OLD.read_bytes())
    store = EpisodeFiles(tmp_path, replay_after=1)
    store.add_episode(evolve(conversation("train/2/größe/3"), verdict=None))
    store.close()
    again = StoredEpisodes(tmp_path, replay_after=1)
    identities = ["train/1/größe/0", "train/2/größe/1", "train/2/größe/2", "train/2/größe/3", "train/3/cut/0"]
    assert [again.recall(one) is not None for one in identities] == [False, True, True, True, False]


def test_old_and_new_lines_have_the_same_place():
    for line in OLD.read_bytes().splitlines(keepends=True):
        record = read_line(line)
        found = record["episode"] if record["kind"] == "episode" else record
        expected = (record["kind"], found["step"]) if record["kind"] != "cut" else (None, None)
        assert read_place(line) == expected
    assert read_place(seal(encode_episode(conversation()))) == ("episode", 2)


Change = Callable[[dict[str, Any]], object]
CHANGES: dict[str, Change] = {
    "no tokens": lambda record: record.update(arrays=""),
    "no calls": lambda record: record.update(calls=""),
    "not base64": lambda record: record.update(calls="?" + record["calls"][1:]),
    "cut": lambda record: record.update(arrays=record["arrays"][: len(record["arrays"]) // 8 * 4]),
    "tokens of another": lambda record: record.update(arrays=json.loads(encode_episode(episode()))["arrays"]),
    "more tokens": lambda record: record.update(calls=json.loads(encode_episode(episode()))["calls"]),
    "a number": lambda record: record.update(arrays=3),
    "facts of another step": lambda record: record["facts"].update(step=9),
    "facts without a step": lambda record: record["facts"].pop("step"),
    "a list for facts": lambda record: record.update(facts=[1]),
    "no facts": lambda record: record.pop("facts"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_line_with_another_content_costs_its_episode_alone(tmp_path: Path, change: Change):
    record = json.loads(encode_episode(conversation()))
    change(record)
    lines = [encode_episode(episode(step=1)), encode_record(record), encode_episode(episode(step=3))]
    (tmp_path / "train.jsonl").write_bytes(b"".join(map(seal, lines)))
    # Its facts are read from the rest of a line that is whole.
    assert [one.step for one in read_episodes(tmp_path, "train")] == [1, 3]
    store = StoredEpisodes(tmp_path, replay_after=0)
    assert [store.recall(f"train/{step}/t/0") is not None for step in (1, 3)] == [True, True]


@given(place=st.floats(0, 0.999), bit=st.integers(0, 7))
def test_a_flipped_bit_changes_nothing_that_is_read(place: float, bit: int):
    line = bytearray(seal(encode_episode(conversation())))
    line[int(place * (len(line) - 1))] ^= 1 << bit
    try:
        found = plain(load_episode(read_line(bytes(line))["episode"]))
    except UNREADABLE:
        return
    # A line whose checksum has lost its name is one of an older version.
    assert found == plain(conversation())


def test_a_damaged_line_of_a_later_step_does_not_end_the_step_before(tmp_path: Path):
    store = EpisodeFiles(tmp_path)
    for repeat in range(2):
        store.add_episode(evolve(episode(repeat), verdict=None))
    store.add_verdicts(group(episode(0, 0.5), episode(1, None)))
    store.add_episode(evolve(episode(step=2), verdict=None))
    store.close()
    path = tmp_path / "train.jsonl"
    path.write_bytes(path.read_bytes()[:-9] + b"########\n")
    # The judge's failure is still in the last step that was played.
    assert StoredEpisodes(tmp_path, replay_after=0).recall("train/1/t/1").verdict is None


def test_steps_before_the_checkpoint_are_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    decoded: list[int] = []
    monkeypatch.setattr("astuner.runs.store.store_lines.read_line", lambda line: decoded.append(1) or {"kind": "cut", "step": 9})
    for encode in (encode_episode, encode_arrays):
        (tmp_path / "train.jsonl").write_bytes(b"".join(seal(encode(episode(step=step))) for step in (1, 2, 3)))
        StoredEpisodes(tmp_path, replay_after=3)
        list(read_records(tmp_path / "train.jsonl", wants=lambda line: False))
    EpisodeIndex(tmp_path / "train.jsonl", 9)
    assert decoded == []


def test_a_task_id_of_any_characters_is_in_the_facts(tmp_path: Path):
    task = Task("q", task_id='},"episode":{"id":"train/9/')
    made = evolve(episode(), task=task)
    (tmp_path / "train.jsonl").write_bytes(seal(encode_episode(made)))
    (found,) = EpisodeIndex(tmp_path / "train.jsonl")
    assert (found.task_id, found.id) == (task.task_id, made.id)
