from __future__ import annotations

import json
from pathlib import Path

import pytest

from astuner.contract.errors import DataError
from astuner.contract.schema import Task
from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
from astuner.settings.config.sections import DatasetFileSection, FileSplit
from astuner_devkit.run_infos import run_info


def write(folder: Path, *lines: str, name: str = "train.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def rows(folder: Path, *values: object, name: str = "train.jsonl") -> Path:
    return write(folder, *(json.dumps(value) for value in values), name=name)


def reader(folder: Path, file_path: str = "train.jsonl", **split: object) -> DatasetFileReader:
    section = FileSplit(file_path=file_path, **split)  # type: ignore[arg-type]
    return DatasetFileReader(DatasetFileSection(training=section), folder)


def read(folder: Path, file_path: str = "train.jsonl", **split: object) -> list[Task]:
    return list(reader(folder, file_path, **split).read("train"))


def test_a_gsm8k_row_needs_no_mapping(tmp_path: Path) -> None:
    rows(tmp_path, {"question": "How much is 2 + 3?", "answer": "2 + 3 = 5\n#### 5"})
    (task,) = read(tmp_path)
    assert task.main_query == "How much is 2 + 3?"
    assert task.metadata == {"answer": "2 + 3 = 5\n#### 5"}
    assert task.env_type == "no_env"


def test_explicit_columns_win_over_the_usual_names(tmp_path: Path) -> None:
    rows(tmp_path, {"question": "short", "problem": "long", "solution": "5", "answer": "five"})
    (task,) = read(tmp_path, columns={"main_query": "problem", "answer": "solution"})
    assert task.main_query == "long"
    assert task.metadata == {"question": "short", "answer": "5"}


def test_every_field_of_a_task_is_read_from_its_own_column(tmp_path: Path) -> None:
    message = {"role": "system", "content": "Be brief."}
    row = {"main_query": "q", "init_messages": [message], "task_id": 7, "env_type": "appworld", "metadata": {"level": 2}}
    rows(tmp_path, row)
    assert read(tmp_path) == [Task("q", (message,), "7", "appworld", {"level": 2})]


def test_a_prompt_that_is_a_list_of_messages_is_the_query_and_what_comes_before_it(tmp_path: Path) -> None:
    system = {"role": "system", "content": "Be brief.", "name": None}
    rows(tmp_path, {"prompt": [system, {"role": "user", "content": "Hello", "name": None}]})
    (task,) = read(tmp_path)
    assert task.main_query == "Hello"
    assert task.init_messages == ({"role": "system", "content": "Be brief."},)


def test_an_id_made_from_the_content_ignores_the_order_of_columns(tmp_path: Path) -> None:
    rows(tmp_path, {"question": "q", "answer": "1"}, name="a.jsonl")
    rows(tmp_path, {"answer": "1", "question": "q"}, name="b.jsonl")
    assert read(tmp_path, "a.jsonl")[0].task_id == read(tmp_path, "b.jsonl")[0].task_id
    assert len(read(tmp_path, "a.jsonl")[0].task_id) == 20


def test_two_reads_give_the_same_tasks_in_file_order(tmp_path: Path) -> None:
    rows(tmp_path, *({"question": f"q{i}"} for i in range(50)))
    source = reader(tmp_path)
    assert list(source.read("train")) == list(source.read("train"))
    assert [task.main_query for task in source.read("train")] == [f"q{i}" for i in range(50)]


def test_rows_after_the_one_asked_for_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, '{"question": "q"}', "broken")
    assert next(reader(tmp_path).read("train")).main_query == "q"


def test_a_split_that_is_not_configured_is_empty(tmp_path: Path) -> None:
    rows(tmp_path, {"question": "q"})
    assert list(reader(tmp_path).read("validation")) == []


def test_the_limit_ends_the_split(tmp_path: Path) -> None:
    rows(tmp_path, *({"question": f"q{i}"} for i in range(5)))
    assert [task.main_query for task in read(tmp_path, limit=2)] == ["q0", "q1"]


def test_a_reader_made_for_a_run_starts_paths_at_its_configuration(tmp_path: Path) -> None:
    rows(tmp_path, {"question": "q"}, name="dev.jsonl")
    info = run_info(tmp_path)
    options = DatasetFileReader.Options(validation=FileSplit(file_path="dev.jsonl"))
    assert [task.main_query for task in DatasetFileReader.from_run(options, info).read("validation")] == ["q"]


def test_relative_paths_start_at_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf" / "data").mkdir(parents=True)
    rows(tmp_path / "conf" / "data", {"question": "q"})
    monkeypatch.chdir(tmp_path)
    assert len(read(tmp_path / "conf", "data/train.jsonl")) == 1


def test_blank_lines_and_a_byte_order_mark_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(b'\xef\xbb\xbf{"question": "a"}\r\n\r\n  \n{"question": "b"}')
    assert [task.main_query for task in read(tmp_path)] == ["a", "b"]


def test_the_same_id_twice_names_both_rows(tmp_path: Path) -> None:
    path = write(tmp_path, '{"id": "t1", "question": "a"}', '{"id": "t2", "question": "b"}', "", '{"id": "t1", "question": "c"}')
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    assert f"{path}:4: task id 't1' is already that of {path}:1" in str(caught.value)


def test_the_same_content_twice_names_both_rows(tmp_path: Path) -> None:
    path = rows(tmp_path, {"question": "a", "answer": "1"}, {"question": "b"}, {"answer": "1", "question": "a"})
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    assert str(caught.value).startswith(f"{path}:3: the same content as {path}:1")


def test_rows_beyond_the_limit_are_not_compared(tmp_path: Path) -> None:
    rows(tmp_path, {"question": "a"}, {"question": "b"}, {"question": "a"})
    assert len(read(tmp_path, limit=2)) == 2


def test_a_broken_line_is_named_with_its_column(tmp_path: Path) -> None:
    path = write(tmp_path, '{"question": "a"}', "", '{"question": "b"')
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    assert str(caught.value).startswith(f"{path}:3:17: broken JSON in column 17")


def test_a_python_dict_in_place_of_json_gets_a_hint(tmp_path: Path) -> None:
    write(tmp_path, "{'question': 'a'}")
    with pytest.raises(DataError, match="double quotes"):
        read(tmp_path)


def test_bytes_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(b'{"question": "a"}\n{"question": "\xe9"}\n')
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    assert f"{path}:2: byte 15" in str(caught.value)


def test_a_missing_file_is_named_with_its_key_and_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        reader(tmp_path, "data/nothing.jsonl").read("train")
    assert "astuner.task_reader.dataset_file.training.file_path" in str(caught.value)
    assert str(tmp_path / "data" / "nothing.jsonl") in str(caught.value)


def test_a_row_without_a_query_names_the_columns_that_it_has(tmp_path: Path) -> None:
    path = rows(tmp_path, {"problem": "p", "solution": "s"})
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    assert f"{path}:1: no query" in str(caught.value)
    assert "columns are: problem, solution" in str(caught.value)


def test_a_mapped_column_that_a_row_lacks_is_named(tmp_path: Path) -> None:
    rows(tmp_path, {"question": "q"})
    with pytest.raises(DataError, match="no column 'solution', from which `columns` takes 'answer'; columns are: question"):
        read(tmp_path, columns={"answer": "solution"})


def test_a_column_and_the_metadata_object_may_not_contradict_each_other(tmp_path: Path) -> None:
    rows(tmp_path, {"question": "q", "answer": "1", "metadata": {"answer": "2"}})
    with pytest.raises(DataError, match="'answer' is both a column and a key of 'metadata'"):
        read(tmp_path)


def test_a_list_in_a_json_file_is_read_like_lines(tmp_path: Path) -> None:
    values = [{"question": f"q{i}", "text": "x" * 3000} for i in range(100)]
    (tmp_path / "train.json").write_text(json.dumps(values, indent=1), encoding="utf-8")
    assert [task.main_query for task in read(tmp_path, "train.json")] == [f"q{i}" for i in range(100)]


def test_a_broken_object_in_a_list_is_named_with_line_and_column(tmp_path: Path) -> None:
    path = write(tmp_path, "[", ' {"question": "a"},', ' {"question": b}', "]" + " " * 99, name="train.json")
    with pytest.raises(DataError) as caught:
        read(tmp_path, "train.json")
    assert str(caught.value).startswith(f"{path}:3:15: broken JSON in column 15: Expecting value")


def test_a_list_that_was_cut_off_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, '[{"question": "a"}, {"question": "b"}', name="train.json")
    with pytest.raises(DataError, match="cut off"):
        read(tmp_path, "train.json")


def test_a_file_without_rows_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "")
    with pytest.raises(DataError, match="holds no rows"):
        read(tmp_path)
