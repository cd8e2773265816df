"""The reader through the real code of the hub's libraries, each time in a process of its own, against a hub on 127.0.0.1."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
from astuner.settings.config.sections import DatasetFileSection, FileSplit

datasets = pytest.importorskip("datasets", reason="comes with the extra hf")

DATA = Path(__file__).parent / "data" / "gsm8k"
CARD = """---
license: mit
configs:
- config_name: main
  data_files:
  - {split: train, path: main/train-*}
  - {split: test, path: main/test-*}
- config_name: socratic
  data_files:
  - {split: train, path: socratic/train-*}
---
"""
READ = """
import json, os, sys
from pathlib import Path
from astuner.contract.errors import DataError
from astuner_readers.huggingface import HuggingFaceReader
for options in json.loads(sys.argv[1]):
    split = options.pop("read", "train")
    try:
        reader = HuggingFaceReader(HuggingFaceReader.Options(**{"dataset_path": "openai/gsm8k", **options}), Path.cwd())
        tasks = list(reader.read("train" if split == "revisions" else split))
        found = [[task.task_id, task.main_query, task.metadata] for task in tasks]
        if split == "revisions":
            found = dict(reader.list_revisions())
    except DataError as error:
        found = str(error)
    print(json.dumps(found), flush=True)
# Threads of Arrow that a stream has left may abort the interpreter while it ends (apache/arrow#45214).
os._exit(0)
"""

Found = list[Any]


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GSM8K's extract as `openai/gsm8k`, with a branch of fewer rows."""
    root = tmp_path_factory.mktemp("hub")
    for revision, limit in (("main", None), ("small", 3)):
        home = root / "openai" / "gsm8k" / revision
        for config, split in (("main", "train"), ("main", "test"), ("socratic", "train")):
            (home / config).mkdir(parents=True, exist_ok=True)
            rows = [json.loads(line) for line in (DATA / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()[:limit]]
            rows = [{**row, "question": f"{config}: {row['question']}"} for row in rows] if config == "socratic" else rows
            datasets.Dataset.from_list(rows).to_parquet(str(home / config / f"{split}-00000-of-00001.parquet"))
        (home / "README.md").write_text(CARD, encoding="utf-8")
    return root


@pytest.fixture
def hub(repositories: Path, tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """The environment of a process that finds the hub; it is closed when the test is over."""
    command = [sys.executable, str(Path(__file__).with_name("local_hub.py")), str(repositories)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield around(process.stdout.readline().strip(), tmp_path / "cache")
        process.stdin.close()


def around(url: str, home: Path, **more: str) -> Mapping[str, str]:
    return {"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0", **more}


def read(environment: Mapping[str, str], *options: Mapping[str, Any]) -> list[Any]:
    """Read in another process; the tasks for each of the options, or the text of the error."""
    command = [sys.executable, "-c", READ, json.dumps(options)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def from_file(split: str) -> list[Any]:
    reader = DatasetFileReader(DatasetFileSection(training=FileSplit(file_path=str(DATA / f"{split}.jsonl"))), DATA)
    return [[task.task_id, task.main_query, task.metadata] for task in reader.read("train")]


def test_tasks_and_ids_are_those_of_the_file_downloaded_or_streamed(hub: Mapping[str, str]) -> None:
    both = {"config_name": "main", "validation_split": "test"}
    found = read(
        hub, both, {**both, "read": "validation"}, {**both, "streaming": True}, {**both, "training_split": "test[50:60]"}
    )
    train, test = from_file("train"), from_file("test")
    assert (len(train), len(test)) == (200, 200)
    assert found == [train, test, train, test[50:60]]


def test_parts_of_a_stream_are_those_of_a_whole(hub: Mapping[str, str]) -> None:
    stream = {"config_name": "main", "streaming": True}
    parts = read(hub, *({**stream, "training_split": text} for text in ("train[:3]+test[198:]", "test[10%:]", "tain[:3]")))
    assert parts[0] == from_file("train")[:3] + from_file("test")[198:]
    assert "training_split: 'test[10%:]' cannot be streamed: a part of a stream is train[100:200]" in parts[1]
    assert "has no split 'tain'; there are: train, test" in parts[2]


def test_a_branch_and_its_commit_are_revisions_and_others_are_refused(hub: Mapping[str, str]) -> None:
    branch, other = read(hub, {"config_name": "main", "revision": "small"}, {"config_name": "main", "revision": "smal"})
    assert branch == from_file("train")[:3]
    assert other.endswith("huggingface_dat_repo.revision: 'openai/gsm8k' has no branch, tag or commit 'smal'")


def test_the_commit_that_was_read_is_reported_online_and_offline(hub: Mapping[str, str]) -> None:
    options = {"config_name": "main", "read": "revisions"}
    (online,) = read(hub, options)
    assert [*online] == ["openai/gsm8k"]
    assert len(online["openai/gsm8k"]) == 40
    assert read({**hub, "HF_HUB_OFFLINE": "1"}, options) == [online]


def test_what_there_is_not_is_answered_with_what_there_is(hub: Mapping[str, str]) -> None:
    split, config, none, repository, path = read(
        hub,
        {"config_name": "main", "read": "validation"},
        {"config_name": "mian"},
        {},
        {"dataset_path": "openai/gsm9k"},
        {"dataset_path": "./gsm8k.jsonl"},
    )
    assert "validation_split: 'openai/gsm8k' has no split 'validation'; there are: train, test" in split
    assert "config_name: 'openai/gsm8k' has no configuration 'mian'; there are: main, socratic" in config
    assert "has several configurations, and none is chosen; there are: main, socratic" in none
    assert "there is no data set 'openai/gsm9k' at http://127.0.0.1:" in repository
    assert "gsm8k.jsonl does not exist; relative paths start at" in path


def test_what_was_read_once_is_read_again_without_the_hub(repositories: Path, hub: Mapping[str, str]) -> None:
    second = {"config_name": "socratic", "revision": "small"}
    online = read(hub, {"config_name": "main"}, second)
    offline = {**hub, "HF_HUB_OFFLINE": "1"}
    assert read(offline, {"config_name": "main"}, second, {**second, "streaming": True}) == [*online, online[1]]
    unreachable = {**hub, "HF_ENDPOINT": "http://127.0.0.1:9"}
    assert read(unreachable, {"config_name": "main"}, second) == online


def test_a_copy_of_another_revision_does_not_stand_for_the_one_asked_for(hub: Mapping[str, str]) -> None:
    read(hub, {"config_name": "main"})
    (refused,) = read({**hub, "HF_HUB_OFFLINE": "1"}, {"config_name": "main", "revision": "small"})
    assert "HF_HUB_OFFLINE is set, and there is no copy of it at revision 'small'" in refused


def test_a_hub_that_cannot_be_reached_is_said_with_what_to_do(tmp_path: Path) -> None:
    (refused,) = read(around("http://user:secret@127.0.0.1:9", tmp_path / "empty"), {"config_name": "main"})
    assert "the hub at http://127.0.0.1:9 cannot be reached (ConnectError)" in refused
    assert "hf download openai/gsm8k --repo-type dataset" in refused
    assert "secret" not in refused
