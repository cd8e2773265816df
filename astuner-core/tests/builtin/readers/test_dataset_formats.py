"""The same rows in each format that `dataset_file` reads, and what is wrong with files of each."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astuner.contract.errors import DataError
from astuner.contract.schema import Task
from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
from astuner.settings.config.sections import DatasetFileSection, FileSplit
from astuner.shared.install_hints import install_command
from astuner_devkit.contracts import ReaderContract

ROWS = [
    {"question": "How much is 2, plus 3?", "answer": "5"},
    {"question": "Two\nlines, and a \"quote\"", "answer": ""},
    {"question": "Zwölf — 十二", "answer": " 12 "},
]  # fmt: skip


def read(path: Path, **split: Any) -> list[Task]:
    section = DatasetFileSection(training=FileSplit(file_path=path.name, **split))
    return list(DatasetFileReader(section, path.parent).read("train"))


def file(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path: Path, **split: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(path, **split)
    return str(caught.value)


def saved(folder: Path, ending: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    path = folder / f"rows.{ending}"
    if ending == "jsonl":
        return file(path, "".join(json.dumps(row) + "\n" for row in rows))
    if ending == "json":
        return file(path, json.dumps(list(rows), ensure_ascii=False))
    if ending == "parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="comes with the extra parquet")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path, row_group_size=2)
        return path
    with path.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, list(rows[0]), delimiter="\t" if ending == "tsv" else ",")
        writer.writeheader()
        writer.writerows(rows)
    return path


FORMATS = ["jsonl", "json", "csv", "tsv", "parquet"]


@pytest.mark.parametrize("ending", FORMATS)
def test_the_same_rows_are_the_same_tasks_with_the_same_ids_in_each_format(tmp_path: Path, ending: str) -> None:
    expected = read(saved(tmp_path, "jsonl", ROWS))
    assert read(saved(tmp_path, ending, ROWS)) == expected
    assert [task.main_query for task in expected] == [row["question"] for row in ROWS]


@pytest.mark.parametrize("ending", FORMATS)
def test_columns_and_limit_mean_the_same_in_each_format(tmp_path: Path, ending: str) -> None:
    (task,) = read(saved(tmp_path, ending, ROWS), columns={"main_query": "answer", "gold": "question"}, limit=1)
    assert (task.main_query, task.metadata) == ("5", {"gold": "How much is 2, plus 3?"})


@pytest.mark.parametrize("ending", FORMATS)
def test_a_column_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path, ending: str) -> None:
    path = saved(tmp_path, ending, ROWS)
    assert "no column 'gold', from which `columns` takes 'answer'; columns are: question, answer" in refusal(
        path, columns={"answer": "gold"}
    )
    assert "no column 'gold', which is in `json_columns`; columns are: question, answer" in refusal(path, json_columns=("gold",))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1), min_size=1, unique=True)
)
def test_any_text_comes_back_from_csv_as_it_comes_back_from_json(tmp_path: Path, texts: list[str]) -> None:
    rows = [{"question": f"q{text}", "answer": text} for text in texts]
    assert read(saved(tmp_path, "csv", rows)) == read(saved(tmp_path, "jsonl", rows))


def test_cells_of_csv_are_text_and_json_where_they_are_said_to_be(tmp_path: Path) -> None:
    path = file(tmp_path / "a.csv", 'question,score,messages,none\nq,007,"[{""role"": ""user"", ""content"": ""hi""}]",\n')
    (task,) = read(path, json_columns=("messages", "none"))
    assert task.metadata == {"score": "007", "none": None}
    assert task.init_messages == ({"role": "user", "content": "hi"},)
    assert "column 'score' is in `json_columns`, but its cell is not JSON" in refusal(path, json_columns=("score",))
    assert "in `json_columns`" in refusal(path)


def test_numbers_and_lists_in_csv_give_the_ids_of_json_where_they_are_said_to_be_json(tmp_path: Path) -> None:
    file(tmp_path / "a.csv", 'question,score,steps\nq,0.5,"[1, null]"\n')
    file(tmp_path / "a.jsonl", '{"question": "q", "score": 0.5, "steps": [1, null]}')
    assert read(tmp_path / "a.csv", json_columns=("score", "steps")) == read(tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "question,answer\nq,1\nr,2,3\n", "a.csv:3: 3 cells, but the first line names 2 columns (question, answer)"),
        ("a.csv", 'question,answer\n"q\n1",1\n\nr\n', "a.csv:5: 1 cell, but the first line names 2 columns"),
        ("a.csv", 'question,answer\nq,1\n"never closed,1\n', "a.csv:3: broken row: unexpected end of data"),
        ("a.csv", 'question,answer\nq,"a"b\n', "a.csv:2: broken row"),
        ("a.csv", "question,answer,question\nq,1,r\n", "a.csv:1: columns 1 and 3 are both named 'question'"),
        ("a.csv", ",question\n0,q\n", "a.csv:1: column 1 has no name"),
        ("a.csv", "question;answer\nq;1\n", "cells seem to be separated by a semicolon"),
        ("a.tsv", "question,answer\nq,1\n", "cells seem to be separated by a comma"),
        ("a.csv", "question\tanswer\nq\t1\n", "cells seem to be separated by a tab"),
        ("a.csv", "", "a.csv: the file holds no rows"),
        ("a.csv", "question,answer\n", "a.csv: the file holds no rows"),
        ("a.csv", "problem,answer\nq,1\n", "a.csv:2: no query: none of the columns"),
        ("a.csv", b"question\nq\n\xe9\n", "a.csv:3: byte 1 of the line is not UTF-8"),
        ("a.csv", "question\nq\n".encode("utf-16"), "a.csv: the file is UTF-16 or UTF-32, not UTF-8"),
        ("a.jsonl", '{"question": "q"}'.encode("utf-16-le"), "a.jsonl: the file is UTF-16 or UTF-32, not UTF-8"),
        ("a.jsonl", '{"question": "q"}\n{"question": "r", "score": NaN}\n', "a.jsonl:2: NaN is not a JSON value"),
        ("a.jsonl", '{"question": "q", "question": "r"}\n', "a.jsonl:1: an object has two keys 'question'"),
        ("a.jsonl", '{"question": ' + "9" * 5000 + "}\n", "a.jsonl:1: Exceeds the limit"),
        ("a.jsonl", '{"question": ' + "[" * 100_000 + "}\n", "a.jsonl:1: "),
        ("a.json", '[{"question": "q"},\n{"question": -Infinity}]', "a.json:2: -Infinity is not a JSON value"),
        ("a.jsonl", gzip.compress(b'{"question": "q"}\n', mtime=0), "is compressed (.gz), so that it cannot be streamed"),
        ("a.csv.gz", gzip.compress(b"question\nq\n", mtime=0), "unpack it: gunzip -k a.csv.gz"),
        ("a.csv.zst", b"", "unpack it: unzstd a.csv.zst"),
        ("a.xlsx", b"PK\x03\x04", "a.xlsx is a .xlsx file, but this reader takes JSON lines"),
        ("a.arrow", b"ARROW1", "a.arrow is a .arrow file, but this reader takes JSON lines"),
        ("a.jsonl", b"PAR1 and more", "is a parquet file, which its name does not say"),
        ("a.parquet", b"question\nq\n", "is no parquet file"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_with_its_place(tmp_path: Path, name: str, content: str | bytes, said: str) -> None:
    assert said in refusal(file(tmp_path / name, content))


def test_rows_before_a_broken_one_are_read(tmp_path: Path) -> None:
    path = file(tmp_path / "a.csv", "question\nq\nr,s\n")
    section = DatasetFileSection(training=FileSplit(file_path="a.csv"))
    assert next(DatasetFileReader(section, path.parent).read("train")).main_query == "q"


def test_a_byte_order_mark_and_other_line_ends_are_no_part_of_csv(tmp_path: Path) -> None:
    tasks = read(file(tmp_path / "a.csv", b'\xef\xbb\xbfquestion,answer\r\n\r\n"two\r\nlines",1\r\n'))
    assert [(task.main_query, task.metadata) for task in tasks] == [("two\r\nlines", {"answer": "1"})]


def test_a_cell_may_be_a_whole_document(tmp_path: Path) -> None:
    (task,) = read(file(tmp_path / "a.csv", "question,text\nq," + "x" * 300_000 + "\n"))
    assert len(task.metadata["text"]) == 300_000


class TestCsv(ReaderContract):
    component = "astuner.episodes.builtin.readers.dataset_file:DatasetFileReader"
    options: ClassVar[Mapping[str, Any]] = {"training": {"file_path": "rows.csv", "json_columns": ["answer"]}}

    def prepare(self, directory: Path) -> None:
        saved(directory, "csv", [{"question": f"q{n}", "answer": n} for n in range(5)])


class TestJsonLines(ReaderContract):
    component = "astuner.episodes.builtin.readers.dataset_file:DatasetFileReader"
    options: ClassVar[Mapping[str, Any]] = {"training": {"file_path": "rows.jsonl"}, "validation": {"file_path": "rows.jsonl"}}
    splits = ("train", "validation")

    def prepare(self, directory: Path) -> None:
        saved(directory, "jsonl", ROWS)


class TestParquet(ReaderContract):
    component = "astuner.episodes.builtin.readers.dataset_file:DatasetFileReader"
    options: ClassVar[Mapping[str, Any]] = {"validation": {"file_path": "rows.parquet"}}
    splits = ("validation",)

    def prepare(self, directory: Path) -> None:
        saved(directory, "parquet", ROWS)


def test_rows_of_parquet_carry_json_values_and_are_named_by_their_number(tmp_path: Path) -> None:
    row = {"question": "q", "day": date(2024, 2, 29), "steps": [{"n": 1}]}
    (task,) = read(saved(tmp_path, "parquet", [row]))
    assert task.metadata == {"day": "2024-02-29", "steps": [{"n": 1}]}
    path = saved(
        tmp_path, "parquet", [{"question": f"q{n}", "score": 1.0} for n in range(2)] + [{"question": "r", "score": float("nan")}]
    )
    assert "rows.parquet: row 3: column 'score' holds nan, which is not a JSON value; store null" in refusal(path)  # fmt: skip
    assert "row 2: column 'image' holds a bytes" in refusal(
        saved(tmp_path, "parquet", [{"question": "a", "image": None}, {"question": "b", "image": b"x"}])
    )


def test_a_value_of_parquet_that_python_has_none_for_is_named_with_its_row_and_column(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def with_column(values: Sequence[Any], kind: Any) -> Path:
        questions = pyarrow.array([f"q{number}" for number in range(len(values))])
        column = pyarrow.array(values, pyarrow.binary() if kind == pyarrow.string() else pyarrow.int64())
        column = pyarrow.Array.from_buffers(kind, len(values), column.buffers())
        parquet.write_table(pyarrow.Table.from_arrays([questions, column], names=["question", "a"]), tmp_path / "rows.parquet")
        return tmp_path / "rows.parquet"

    path = with_column([b"good", b"caf\xe9"], pyarrow.string())
    assert "rows.parquet: row 2: column 'a': byte 4 of the text is not UTF-8; write the column as UTF-8" in refusal(path)
    rows = DatasetFileReader(DatasetFileSection(training=FileSplit(file_path=path.name)), tmp_path).read("train")
    assert next(rows).metadata == {"a": "good"}
    for name, kind, value in (
        ("timestamp", pyarrow.timestamp("us"), 2**62),
        ("timestamp", pyarrow.timestamp("s"), 2**40),
        ("date", pyarrow.date64(), 86_400_000 * 10**9),
    ):
        said = refusal(with_column([0, 0, value], kind))
        assert f"row 3: column 'a' holds a {name}" in said
        assert "without a Python equivalent" in said


def test_a_parquet_file_that_is_cut_off_or_empty_is_said(tmp_path: Path) -> None:
    path = saved(tmp_path, "parquet", ROWS)
    whole = path.read_bytes()
    assert "broken parquet file" in refusal(file(path, whole[:-20]))
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"question": pyarrow.array([], pyarrow.string())}), path)
    assert "the file holds no rows" in refusal(path)
    parquet.write_table(pyarrow.Table.from_arrays([["a"], ["b"]], names=["question", "question"]), path)
    assert "two columns are named 'question'" in refusal(path)


def test_parquet_without_pyarrow_is_answered_with_the_command_that_brings_it(tmp_path: Path) -> None:
    file(tmp_path / "a.parquet", b"PAR1")
    code = f"""
import sys
sys.modules["pyarrow"] = None  # what an import finds where the package is not installed
from pathlib import Path
from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
from astuner.settings.config.sections import DatasetFileSection, FileSplit
from astuner.contract.errors import PluginError
try:
    DatasetFileReader(DatasetFileSection(training=FileSplit(file_path="a.parquet")), Path({str(tmp_path)!r})).read("train")
except PluginError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert install_command("astuner-core[parquet]") in shown


def test_the_reader_imports_pyarrow_for_nothing_but_parquet(tmp_path: Path) -> None:
    saved(tmp_path, "csv", ROWS)
    code = f"""
import sys
from pathlib import Path
from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
from astuner.settings.config.sections import DatasetFileSection, FileSplit
list(DatasetFileReader(DatasetFileSection(training=FileSplit(file_path="rows.csv")), Path({str(tmp_path)!r})).read("train"))
print("pyarrow" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
