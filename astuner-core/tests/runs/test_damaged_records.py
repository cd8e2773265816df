"""Damaged records of a run are named, with the line and the way on; a damaged line of the store costs one record."""

from __future__ import annotations

import json
import shutil

import pytest
from attrs import evolve

from astuner.contract.errors import RunFailed, UsageError
from astuner.contract.schema import Verdict
from astuner.episodes.builtin.loggers.jsonl_logger import JsonlLogger
from astuner.runs.driver.replayed_steps import read_step_times
from astuner.runs.store.atomic import write_text
from astuner.runs.store.codec import dump_episode, encode_episode
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import EpisodeFiles, read_episodes
from astuner_devkit.episodes import episode, group


@pytest.fixture
def directory(tmp_path):
    found = RunDirectory(tmp_path / "run")
    found.open()
    found.write_state(status="running", step=3)
    found.write_run({"backbone": "local"})
    found.write_config(given="", resolved="astuner:\n  seed: 1\n", native={})
    yield found
    found.close()


DAMAGES = {
    "empty": lambda content: b"",
    "torn": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
    "not UTF-8": lambda content: content.replace(b'"', b"\xff", 1),
    "a list": lambda content: b"[1]\n",
    "nested": lambda content: b"[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("name", ["state", "run"])
def test_a_damaged_json_record_is_named_with_what_deleting_it_loses(directory, name, damage):
    path = directory.path / f"{name}.json"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UsageError, match=rf"{name}\.json.*damaged.*delete it to continue: lost with it are only"):
        getattr(directory, name)


def test_a_record_that_is_still_valid_json_is_damaged_if_its_checksum_says_so(directory):
    text = directory.state_file.read_text()
    directory.state_file.write_text(text.replace('"step": 3', '"step": 2'))
    with pytest.raises(UsageError, match="remove the line 'checksum'"):
        _ = directory.state
    directory.state_file.write_text(json.dumps({"step": 2}))
    assert directory.state == {"step": 2}


@pytest.mark.parametrize(
    "damage", [b"", b"resolved: [", b"resolved: {a: 1}\nresolved", b"\0\0", b"resolved: 3", b"\xff\xfe", b"- 1"]
)
def test_a_damaged_config_is_named_with_the_way_on(directory, damage):
    path = directory.path / "config.yaml"
    path.write_bytes(damage)
    with pytest.raises(UsageError, match=r"config\.yaml.*damaged.*delete it to continue"):
        directory.read_config()


def test_a_lock_of_any_bytes_can_be_held(directory):
    (directory.path / "lock").write_bytes(b"\xff\0")
    with pytest.raises(UsageError, match="in use by process"):
        RunDirectory(directory.path).open()


def test_a_run_that_cannot_be_written_at_its_start_has_not_started(tmp_path):
    (tmp_path / "run").write_text("a file in the way")
    with pytest.raises(RunFailed, match="so the run has not started"):
        RunDirectory(tmp_path / "run").open()


def test_a_run_directory_that_was_deleted_is_not_said_to_have_lost_nothing(directory):
    shutil.rmtree(directory.path)
    with pytest.raises(RunFailed, match="its directory is gone, and with it what was stored there") as caught:
        directory.write_state(step=4)
    assert "Nothing that was complete is lost" not in str(caught.value)


def store_steps(path, steps=(1, 2, 3)):
    store = EpisodeFiles(path)
    for step in steps:
        for repeat in range(2):
            store.add_episode(evolve(episode(repeat, step=step), verdict=None))
        store.add_verdicts(group(episode(0, 0.5, step=step), episode(1, 0.25, step=step)))
    store.close()


def damage_line(path, number, change):
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number - 1] = change(lines[number - 1])
    path.write_bytes(b"".join(lines))


LINES = {
    "zeros": lambda line: bytes(len(line) - 1) + b"\n",
    "one bit": lambda line: line[:-9] + bytes([line[-9] ^ 1]) + line[-8:],
    "another reward": lambda line: line.replace(b"0", b"1", 1) if b"0" in line else b"\n",
    "not UTF-8": lambda line: line[:5] + b"\xff" + line[6:],
    "first byte": lambda line: b"\0" + line[1:],
    "empty": lambda line: b"\n",
}


@pytest.mark.parametrize("change", LINES.values(), ids=LINES)
def test_a_damaged_episode_costs_one_episode_and_is_named(tmp_path, change):
    store_steps(tmp_path)
    damage_line(tmp_path / "train.jsonl", 4, change)
    said: list[str] = []
    store = EpisodeFiles(tmp_path, replay_after=0, report=said.append)
    recalled = {(step, repeat): store.recall(f"train/{step}/t/{repeat}") for step in (1, 2, 3) for repeat in (0, 1)}
    store.close()
    assert [key for key, found in recalled.items() if found is None] == [(2, 0)]
    assert len(said) == 1
    assert f"{tmp_path / 'train.jsonl'}:4: line 4 is damaged" in said[0]


@pytest.mark.parametrize("change", LINES.values(), ids=LINES)
def test_a_damaged_verdict_leaves_its_group_to_be_judged_again(tmp_path, change):
    store_steps(tmp_path)
    damage_line(tmp_path / "train.jsonl", 6, change)
    store = EpisodeFiles(tmp_path, replay_after=0)
    verdicts = [store.recall(f"train/{step}/t/0").verdict for step in (1, 2, 3)]
    store.close()
    assert verdicts == [Verdict(0.5), None, Verdict(0.5)]


def test_damaged_lines_do_not_stop_those_who_read_the_file(tmp_path):
    store_steps(tmp_path)
    damage_line(tmp_path / "train.jsonl", 1, LINES["zeros"])
    assert len(list(read_episodes(tmp_path, "train"))) == 5


def test_a_damaged_cut_does_not_bring_back_what_it_cut_off(tmp_path):
    store_steps(tmp_path)
    store = EpisodeFiles(tmp_path, replay_after=0)
    store.cut_after(1)
    store.close()
    damage_line(tmp_path / "train.jsonl", 10, LINES["zeros"])
    store = EpisodeFiles(tmp_path, replay_after=0)
    assert store.recall("train/2/t/0") is None
    store.close()


def test_lines_of_older_versions_are_read_and_damaged_ones_left_out(tmp_path):
    whole = encode_episode(evolve(episode(0), verdict=None))
    cut = {"kind": "episode", "episode": dump_episode(evolve(episode(1), verdict=None))}
    del cut["episode"]["calls"]
    (tmp_path / "train.jsonl").write_bytes(whole + json.dumps(cut).encode() + b"\n")
    store = EpisodeFiles(tmp_path, replay_after=0)
    assert [store.recall(f"train/1/t/{repeat}") is not None for repeat in (0, 1)] == [True, False]
    store.close()


def test_deleting_the_episodes_of_a_run_is_noticed_and_later_ones_are_stored(tmp_path):
    said: list[str] = []
    store = EpisodeFiles(tmp_path / "episodes", report=said.append)
    store.add_episode(episode(step=1))
    shutil.rmtree(tmp_path / "episodes")
    for step in (2, 3):
        store.add_episode(episode(step=step))
    store.close()
    assert len(said) == 1
    assert "was deleted during the run" in said[0]
    assert [found.step for found in read_episodes(tmp_path / "episodes", "train")] == [2, 3]


def test_episodes_of_a_deleted_run_directory_are_not_written_to_a_new_one(tmp_path):
    store = EpisodeFiles(tmp_path / "run" / "episodes")
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(RunFailed, match="its directory is gone"):
        store.add_episode(episode())
    assert not (tmp_path / "run").exists()


def write_rows(path, *lines):
    write_text(path, "")
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def row(step):
    return json.dumps({"step": step, "kind": "train", "time/step_s": 1.0}).encode()


@pytest.mark.parametrize("bad", [b"\0\0", b"\xff{}", b"{", b"[]", b'{"step": null}', b'{"step": 1e999}'])
def test_a_damaged_row_of_metrics_is_named_unless_it_is_dropped_anyway(tmp_path, bad):
    path = tmp_path / "metrics.jsonl"
    write_rows(path, row(1), bad, row(2), row(3))
    logger = JsonlLogger(path)
    with pytest.raises(RunFailed, match=r"metrics\.jsonl:2: not a row of metrics.*remove the line to resume"):
        logger.truncate_after(2)
    write_rows(path, row(1), row(2), row(3), bad)
    logger = JsonlLogger(path)
    logger.truncate_after(2)
    logger.close()
    assert path.read_bytes() == row(1) + b"\n" + row(2) + b"\n"


def test_times_are_read_around_damaged_rows(tmp_path):
    write_rows(tmp_path / "metrics.jsonl", row(1), b"\xff", b'{"kind": "train", "step": "x"}', row(2))
    assert list(read_step_times(tmp_path / "metrics.jsonl", 1)) == [2]
