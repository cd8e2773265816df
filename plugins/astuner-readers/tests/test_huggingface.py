from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import DataError
from astuner.contract.schema import Task
from astuner_devkit.run_infos import run_info
from astuner_readers.huggingface import HuggingFaceReader

datasets = pytest.importorskip("datasets", reason="comes with the extra hf")

CARD = """---
configs:
- config_name: main
  default: true
  data_files:
  - {split: train, path: main/train.parquet}
  - {split: test, path: main/test.parquet}
- config_name: other
  data_files:
  - {split: train, path: other/train.parquet}
---
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A data set as it lies in a repository of the hub: a card with configurations, and parquet files."""
    folder = tmp_path / "gsm"
    save(folder / "main" / "train.parquet", [{"question": f"q{i}", "answer": f"#### {i}"} for i in range(5)])
    save(folder / "main" / "test.parquet", [{"question": "t", "answer": "#### 7"}])
    save(folder / "other" / "train.parquet", [{"question": "other", "answer": "#### 8"}])
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    return folder


def save(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    datasets.Dataset.from_list(rows).to_parquet(str(path))


def reader(folder: Path, **options: Any) -> HuggingFaceReader:
    info = run_info(folder)
    return HuggingFaceReader.from_run(HuggingFaceReader.Options(**options), info)


def queries(tasks: Any) -> list[str]:
    return [task.main_query for task in tasks]


@pytest.mark.parametrize("streaming", [False, True])
def test_a_local_directory_is_read_in_order_every_time(repository: Path, streaming: bool) -> None:
    source = reader(repository.parent, dataset_path="gsm", streaming=streaming)
    assert queries(source.read("train")) == ["q0", "q1", "q2", "q3", "q4"]
    assert list(source.read("train")) == list(source.read("train"))
    assert next(source.read("train")).metadata == {"answer": "#### 0"}


def test_the_files_of_a_local_data_set_are_listed(repository: Path) -> None:
    names = {path.name for path in reader(repository.parent, dataset_path="gsm").list_files()}
    assert names == {"README.md", "train.parquet", "test.parquet"}


def test_a_configuration_is_chosen_by_name(repository: Path) -> None:
    assert queries(reader(repository.parent, dataset_path="gsm", config_name="other").read("train")) == ["other"]


@pytest.mark.parametrize("streaming", [False, True])
def test_a_split_that_does_not_exist_is_answered_with_those_that_do(repository: Path, streaming: bool) -> None:
    with pytest.raises(DataError) as caught:
        reader(repository.parent, dataset_path="gsm", streaming=streaming).read("validation")
    assert "validation_split: 'gsm' has no split 'validation'; there are: train, test" in str(caught.value)


def test_a_split_of_null_is_empty(repository: Path) -> None:
    assert list(reader(repository.parent, dataset_path="gsm", validation_split=None).read("validation")) == []


def test_a_part_of_a_split_is_a_split(repository: Path) -> None:
    assert queries(reader(repository.parent, dataset_path="gsm", training_split="train[1:3]").read("train")) == ["q1", "q2"]


def test_columns_and_limit_are_those_of_the_json_reader(repository: Path) -> None:
    source = reader(repository.parent, dataset_path="gsm", columns={"main_query": "answer", "gold": "question"}, limit=1)
    (task,) = source.read("train")
    assert task == Task("#### 0", task_id=task.task_id, metadata={"gold": "q0"})


def test_the_same_row_twice_names_both(tmp_path: Path) -> None:
    save(tmp_path / "twice.parquet", [{"question": "a"}, {"question": "b"}, {"question": "a"}])
    with pytest.raises(DataError, match=r"twice\.parquet:train\[2\]: the same content as twice\.parquet:train\[0\]"):
        list(reader(tmp_path, dataset_path="twice.parquet").read("train"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "question,answer\nq,1\n"),
        ("a.tsv", "question\tanswer\nq\t1\n"),
        ("a.jsonl", '{"question": "q", "answer": 1}\n'),
        ("a.json", '[{"question": "q", "answer": 1}]'),
    ],
)
def test_a_local_table_is_its_split_train(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    (task,) = reader(tmp_path, dataset_path=name).read("train")
    assert (task.main_query, task.metadata) == ("q", {"answer": 1})


def test_an_arrow_file_is_its_split_train_too(tmp_path: Path) -> None:
    datasets.Dataset.from_list([{"question": "q"}]).save_to_disk(str(tmp_path / "saved"))
    (path,) = (tmp_path / "saved").glob("*.arrow")
    assert queries(reader(path.parent, dataset_path=path.name).read("train")) == ["q"]


def test_what_save_to_disk_wrote_is_read_too(tmp_path: Path) -> None:
    one = datasets.Dataset.from_list([{"question": "q"}])
    datasets.DatasetDict({"train": one}).save_to_disk(str(tmp_path / "saved"))
    source = reader(tmp_path, dataset_path="saved")
    assert queries(source.read("train")) == ["q"]
    with pytest.raises(DataError, match="has no split 'validation'; there are: train"):
        source.read("validation")


@pytest.mark.parametrize(
    "name", ["train[:2]", "train[-2:]", "train[:40%]", "train[20%:]", "test+train[1:3]", "train[3:1]", "train[4:99]"]
)
def test_parts_of_what_save_to_disk_wrote_are_those_of_a_repository(repository: Path, name: str) -> None:
    datasets.load_dataset(str(repository)).save_to_disk(str(repository.parent / "saved"))
    saved, whole = (reader(repository.parent, dataset_path=path, training_split=name) for path in ("saved", "gsm"))
    assert list(saved.read("train")) == list(whole.read("train"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("train[:2]+tset", r"training_split: 'saved' has no split 'train\[:2\]\+tset'; there are: train"),
        ("train[:x]", r"Unrecognized instruction format: train\[:x\]"),
    ],
)
def test_a_part_that_there_is_not_in_a_saved_one_is_named(tmp_path: Path, name: str, message: str) -> None:
    datasets.Dataset.from_list([{"question": "q"}]).save_to_disk(str(tmp_path / "saved"))
    with pytest.raises(DataError, match=message):
        reader(tmp_path, dataset_path="saved", training_split=name).read("train")


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        (
            "saved",
            {"config_name": "main"},
            "config_name: .*saved was written by save_to_disk, of which config_name would say nothing",
        ),
        ("saved", {"revision": "v9", "streaming": True}, "revision: .*, of which revision and streaming would say nothing"),
        ("one.jsonl", {"config_name": "main"}, "config_name: .* is a file"),
        ("one.jsonl", {"revision": "v9"}, "revision: .* is a file"),
        ("gsm", {"revision": "v9"}, "revision: .* is a local directory"),
    ],
)
def test_an_option_that_says_nothing_of_a_local_path_is_refused(
    repository: Path, path: str, options: dict[str, Any], message: str
) -> None:
    datasets.Dataset.from_list([{"question": "q"}]).save_to_disk(str(repository.parent / "saved"))
    (repository.parent / "one.jsonl").write_text('{"question": "q"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=message):
        reader(repository.parent, dataset_path=path, **options)


def test_dates_become_text_in_the_metadata(tmp_path: Path) -> None:
    save(tmp_path / "dated.parquet", [{"question": "q", "day": date(2024, 2, 29), "deep": [{"day": date(2024, 3, 1)}]}])
    (task,) = reader(tmp_path, dataset_path="dated.parquet").read("train")
    assert json.loads(json.dumps(task.metadata)) == {"day": "2024-02-29", "deep": [{"day": "2024-03-01"}]}


def test_a_column_of_bytes_is_named(tmp_path: Path) -> None:
    save(tmp_path / "bytes.parquet", [{"question": "q", "image": b"\x89PNG"}])
    with pytest.raises(DataError, match="column 'image' holds a bytes"):
        list(reader(tmp_path, dataset_path="bytes.parquet").read("train"))


def test_a_data_set_that_is_nowhere_is_named_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"huggingface_dat_repo\.dataset_path: 'no/such'"):
        reader(tmp_path, dataset_path="no/such").read("train")
