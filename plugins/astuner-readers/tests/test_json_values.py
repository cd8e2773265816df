"""What a JSON file holds is what a task holds, whatever its neighbours in the column look like."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.schema import Task
from astuner.shared.tabular import make_tasks, read_json_rows
from astuner_devkit.run_infos import run_info
from astuner_readers.huggingface import HuggingFaceReader

datasets = pytest.importorskip("datasets", reason="comes with the extra hf")

COLUMNS: dict[str, list[Any]] = {
    "dates": ["2024-01-01", "1999-12-31"],
    "times": ["2024-01-01T10:00:00", "2024-01-01 10:00:00Z"],
    "dates and a word": ["2024-01-01", "unknown"],
    "clocks": ["10:30", "23:59:59"],
    "whole and broken numbers": [1, 0.5],
    "numbers of digits": ["007", "1e5"],
    "large numbers": [2**53 + 1, 12345678901234567890123],
    "nested dates": [{"day": "2024-01-01"}, {"day": "2024-02-02", "note": 1}],
    "lists of dates": [["2024-01-01"], []],
    "nulls": [None, "2024-01-01"],
    "true and false": [True, False],
    "texts of JSON": ["[1, 2]", '{"a": 1}'],
}


def read(home: Path, **options: Any) -> list[Task]:
    return list(HuggingFaceReader.from_run(HuggingFaceReader.Options(**options), run_info(home)).read("train"))


def rows_of(values: list[Any]) -> list[dict[str, Any]]:
    return [{"question": f"q{number}", "answer": value} for number, value in enumerate(values)]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_a_column_keeps_its_values(tmp_path: Path, values: list[Any], streaming: bool):
    write(tmp_path / "data.jsonl", rows_of(values))
    tasks = read(tmp_path, dataset_path="data.jsonl", streaming=streaming)
    assert [(type(task.metadata["answer"]), task.metadata["answer"]) for task in tasks] == [(type(v), v) for v in values]
    assert tasks == list(make_tasks(lambda: read_json_rows(tmp_path / "data.jsonl")))


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", ["set/train.jsonl", "set/train.json", "set/data/train-00000-of-00001.jsonl"])
def test_a_directory_keeps_them_too(tmp_path: Path, name: str, streaming: bool):
    write(tmp_path / name, rows_of(COLUMNS["dates"]))
    tasks = read(tmp_path, dataset_path="set", streaming=streaming)
    assert [task.metadata["answer"] for task in tasks] == COLUMNS["dates"]


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
def test_a_compressed_file_is_read_like_any_other(tmp_path: Path, streaming: bool):
    (tmp_path / "set").mkdir()
    text = "".join(json.dumps(row) + "\n" for row in rows_of(COLUMNS["dates"]))
    (tmp_path / "set" / "train.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    tasks = read(tmp_path, dataset_path="set", streaming=streaming)
    assert [task.metadata["answer"] for task in tasks] == COLUMNS["dates"]


@pytest.mark.parametrize("part", ["train[:1]", "train[1:]", "train[50%:]", "train[-1:]", "train[1:9]", "train[1:]+train[:1]"])
def test_parts_of_a_json_file_are_those_of_the_library(tmp_path: Path, part: str):
    write(tmp_path / "data.jsonl", [{"question": f"q{number}", "id": str(number)} for number in range(2)])
    files = {"train": str(tmp_path / "data.jsonl")}
    expected = datasets.load_dataset("json", data_files=files, split=part, cache_dir=str(tmp_path / "cache"))["question"]
    options = {"dataset_path": "data.jsonl", "training_split": part}
    assert [task.main_query for task in read(tmp_path, **options)] == list(expected)


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
def test_a_file_that_is_one_object_is_read_by_column_or_by_its_field(tmp_path: Path, streaming: bool):
    rows = rows_of(COLUMNS["dates"])
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    (tmp_path / "columns.json").write_text(json.dumps(columns, indent=1), encoding="utf-8")
    assert [t.metadata["answer"] for t in read(tmp_path, dataset_path="columns.json", streaming=streaming)] == COLUMNS["dates"]
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "all.json").write_text(json.dumps({"version": 1, "data": rows}), encoding="utf-8")
    card = "---\nconfigs:\n- config_name: default\n  data_files: all.json\n  field: data\n---\n"
    (tmp_path / "set" / "README.md").write_text(card, encoding="utf-8")
    assert [t.metadata["answer"] for t in read(tmp_path, dataset_path="set", streaming=streaming)] == COLUMNS["dates"]
