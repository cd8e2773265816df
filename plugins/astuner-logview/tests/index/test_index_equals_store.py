"""Whatever a run has written, in whatever order it is indexed, the index holds what a full read of the store finds."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.schema import Failure, Unjudged, Verdict
from astuner.runs.store.codec import dump_verdict, encode_episode, encode_record
from astuner.runs.store.episode_index import EpisodeIndex
from astuner.runs.store.store_lines import seal
from astuner_devkit.episodes import episode
from astuner_logview.index.writer import IndexWriter

STEPS, TASKS, REPEATS = st.integers(1, 3), st.sampled_from(["a", "b/c"]), st.integers(0, 1)
IDS = st.builds("train/{}/{}/{}".format, STEPS, TASKS, REPEATS)
VERDICTS = st.one_of(
    st.builds(Verdict, st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([None, True, False])),
    st.builds(Unjudged, reason=st.just("judge_error")),
)


@st.composite
def episode_lines(draw: st.DrawFn) -> bytes:
    made = episode(draw(REPEATS), task=draw(TASKS), step=draw(STEPS))
    made = evolve(made, verdict=draw(st.none() | VERDICTS))
    if draw(st.booleans()):
        made = evolve(made, output=None, failures=(Failure(reason="timeout"),))
    return encode_episode(made)


@st.composite
def verdict_lines(draw: st.DrawFn) -> bytes:
    verdicts = {one: dump_verdict(draw(st.none() | VERDICTS)) for one in draw(st.lists(IDS, max_size=3))}
    return encode_record({"kind": "verdicts", "step": 1, "group": "train/1/a", "verdicts": verdicts})


CUTS = st.builds(lambda step: encode_record({"kind": "cut", "step": step}), st.integers(0, 3))
FORGOTTEN = st.builds(lambda one: encode_record({"kind": "forgotten", "episodes": [one], "verdicts": []}), IDS)
RECORDS = st.one_of(episode_lines(), episode_lines(), verdict_lines(), CUTS, FORGOTTEN)
DAMAGED = st.builds(lambda line, place: _damage(seal(line), place), episode_lines(), st.floats(0, 0.99))
FOREIGN = st.sampled_from([b"\n", b"{}\n", b"null\n", b"\xff\xfe\n", b'{"kind":"cut"}\n', b"[" * 300 + b"\n"])
LINES = st.one_of(st.builds(seal, RECORDS), st.builds(seal, RECORDS), RECORDS, DAMAGED, FOREIGN)


def _damage(line: bytes, place: float) -> bytes:
    at = int(place * (len(line) - 1))
    return line[:at] + (b"#" if line[at : at + 1] != b"#" else b"+") + line[at + 1 :]


def read_index(writer: IndexWriter) -> Iterator[tuple[object, ...]]:
    yield from writer._connection.execute(
        "SELECT id, step, task, repeat, completed, reward, success, judge_failed, offset, verdict_offset "
        "FROM episodes ORDER BY id"
    )


def read_store(path: Path) -> list[tuple[object, ...]]:
    return sorted(
        (
            one.id,
            one.step,
            one.task_id,
            one.repeat,
            one.completed,
            one.reward,
            one.is_success,
            one.judge_failed,
            one.offset,
            one.verdict_offset,
        )
        for one in EpisodeIndex(path)
    )


@given(
    chunks=st.lists(st.lists(LINES, max_size=6), max_size=4),
    torn=st.binary(max_size=20),
    block=st.integers(1, 2000),
    steps=st.integers(0, 4),
)
def test_index_holds_what_a_full_read_finds(chunks: list[list[bytes]], torn: bytes, block: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        (run / "episodes").mkdir(parents=True)
        store = run / "episodes" / "train.jsonl"
        store.touch()
        writer = IndexWriter(run, Path(directory) / "index.sqlite", block=block, first_block=block)
        for lines in chunks:
            with store.open("ab") as file:
                file.write(b"".join(lines))
            for _ in range(steps):
                writer.advance()
        with store.open("ab") as file:
            file.write(torn.replace(b"\n", b""))
        while writer.advance():
            pass
        assert list(read_index(writer)) == read_store(store)
        damaged = writer._connection.execute("SELECT count(*) FROM damages").fetchone()[0]
        assert damaged == len(EpisodeIndex(store).damaged)
        writer.close()


def test_an_episode_is_found_by_its_words_after_a_later_verdict(tmp_path: Path) -> None:
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    verdict = Verdict(1.0, rationale="A splendid answer.")
    made = episode(task="a")
    record = {"kind": "verdicts", "step": 1, "group": "train/1/a", "verdicts": {made.id: dump_verdict(verdict)}}
    lines = [seal(encode_episode(evolve(made, verdict=None))), seal(encode_record(record))]
    (tmp_path / "run" / "episodes" / "train.jsonl").write_bytes(b"".join(lines))
    writer = IndexWriter(tmp_path / "run", tmp_path / "index.sqlite", block=10, first_block=10)
    while writer.advance():
        pass
    found = writer._connection.execute(
        "SELECT id FROM episodes WHERE verdict_rowid IN (SELECT rowid FROM rationales WHERE rationales MATCH 'splendid')"
    ).fetchall()
    assert found == [(made.id,)]
    assert json.loads(writer._connection.execute("SELECT components FROM episodes").fetchone()[0]) == {}


UNHOLDABLE = [
    (("step",), 1.5),
    (("step",), 2**63),
    (("step",), [1]),
    (("repeat",), "first"),
    (("repeat",), -(2**63) - 1),
    (("task", "task_id"), "\ud800"),
    (("task", "task_id"), {"a": 1}),
    (("task", "main_query"), "half a pair: \udfff"),
    (("duration_s",), "long"),
    (("verdict", "reward"), 2**70),
]


@pytest.mark.parametrize(("place", "value"), UNHOLDABLE)
def test_a_record_that_no_column_holds_costs_no_other(tmp_path: Path, place: tuple[str, ...], value: object) -> None:
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    before, after = (evolve(episode(repeat, task="a"), verdict=Verdict(1.0)) for repeat in (0, 2))
    record = json.loads(encode_episode(evolve(episode(1, task="a"), verdict=Verdict(0.5))))
    holder = record["episode"]
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    lines = [encode_episode(before), json.dumps(record, separators=(",", ":")).encode() + b"\n", encode_episode(after)]
    (tmp_path / "run" / "episodes" / "train.jsonl").write_bytes(b"".join(lines))
    writer = IndexWriter(tmp_path / "run", tmp_path / "index.sqlite")

    while writer.advance():
        pass

    found = {row[0] for row in read_index(writer)}
    assert {before.id, after.id} <= found
    damaged = writer._connection.execute("SELECT count(*) FROM damages").fetchone()[0]
    assert len(found) + damaged == 3
