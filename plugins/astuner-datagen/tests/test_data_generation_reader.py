from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import ConfigError, DataError
from astuner.contract.schema import Task
from astuner_datagen.reader import DataGenerationReader
from astuner_devkit.scripted_api import ScriptedApi

Read = Callable[..., DataGenerationReader]


def queries(tasks: Iterable[Task]) -> list[str]:
    return [task.main_query for task in tasks]


def origins(tasks: Iterable[Task]) -> list[Mapping[str, Any]]:
    return [task.metadata["provenance"] for task in tasks]


@pytest.fixture
def both(small: Mapping[str, Any], like_samples: Mapping[str, Any]) -> dict[str, Any]:
    """Documents and samples, twelve tasks for training and six for validation."""
    return {"document_reader": small, "query_reader": like_samples, "task_num": 12, "validation_task_num": 6}


def test_validation_asks_of_documents_and_says_where_each_question_is_from(
    llm: ScriptedApi, reader: Read, both: Any, tmp_path: Path
) -> None:
    tasks = list(reader(**both).read("validation"))
    assert len(tasks) == 6
    for task in tasks:
        origin = task.metadata["provenance"]
        text = (tmp_path / origin["document"]).read_text()
        assert task.metadata["evidence"] in text[slice(*origin["characters"])]
        assert task.metadata["answer"] in task.metadata["evidence"]
        assert (origin["model"], origin["prompt"].partition("@")[0]) == ("qwen-long", "knowledge.en")


def test_training_is_like_the_samples_on_other_chunks(llm: ScriptedApi, reader: Read, both: Any) -> None:
    source = reader(**both)
    validation, train = list(source.read("validation")), list(source.read("train"))
    assert len(train) == 12
    assert {origin["sample_task_id"] for origin in origins(train)} == {"s2", "s5", "s9"}
    assert not {origin["chunk_hash"] for origin in origins(train)} & {origin["chunk_hash"] for origin in origins(validation)}
    assert not set(queries(train)) & set(queries(validation))


def test_ids_are_unique_over_both_splits(llm: ScriptedApi, reader: Read, both: Any) -> None:
    source = reader(**both)
    ids = [task.task_id for split in ("train", "validation") for task in source.read(split)]
    assert len(set(ids)) == len(ids) == 18


def test_samples_alone_make_training_tasks_and_no_validation(llm: ScriptedApi, reader: Read, like_samples: Any) -> None:
    source = reader(query_reader=like_samples, task_num=7)
    train = list(source.read("train"))
    assert len(train) == 7
    assert all(str(sum(map(int, task.main_query[8:-1].split(" + ")))) == task.metadata["answer"] for task in train)
    assert list(source.read("validation")) == []


def test_documents_alone_make_questions_for_both(llm: ScriptedApi, reader: Read, small: Any) -> None:
    source = reader(document_reader=small, task_num=6)
    splits = list(source.read("train")), list(source.read("validation"))
    assert [len(tasks) for tasks in splits] == [6, 6]
    assert {origin["prompt"].partition(".")[0] for tasks in splits for origin in origins(tasks)} == {"knowledge"}


def test_what_was_generated_is_read_and_not_asked_again(llm: ScriptedApi, reader: Read, both: Any) -> None:
    first = reader(**both)
    expected = list(first.read("train")), list(first.read("validation"))
    asked = len(llm.bodies)
    second = reader(**both)
    assert (list(second.read("train")), list(second.read("validation"))) == expected
    assert len(llm.bodies) == asked


def test_reading_what_is_there_needs_no_address_of_an_llm(
    llm: ScriptedApi, reader: Read, both: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = list(reader(**both).read("train"))
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")
    assert list(reader(**both).read("train")) == expected


@pytest.mark.parametrize(
    "changed", [{"task_num": 11}, {"llm_model": "other"}, {"sampling_params": {"top_p": 0.5}}, {"verify": True}]
)
def test_other_options_are_other_tasks(llm: ScriptedApi, reader: Read, both: Any, changed: dict[str, Any]) -> None:
    before, after = reader(**both).generator, reader(**{**both, **changed}).generator
    assert before.locate_saved("train").tasks_file != after.locate_saved("train").tasks_file


def test_a_changed_document_is_other_tasks(reader: Read, both: Any, documents: Path) -> None:
    before = reader(**both).generator.locate_saved("train").tasks_file
    (documents / "one.txt").write_text("The end of all is near.")
    assert reader(**both).generator.locate_saved("train").tasks_file != before


@pytest.mark.parametrize("changed", [{"num_workers": 3}, {"llm": {"max_requests": 5, "timeout_s": 1.0}}])
def test_workers_and_limits_change_no_task(reader: Read, both: Any, changed: dict[str, Any]) -> None:
    before, after = reader(**both).generator, reader(**{**both, **changed}).generator
    assert before.locate_saved("train").tasks_file == after.locate_saved("train").tasks_file


def test_the_reader_of_files_reads_the_same_tasks(llm: ScriptedApi, reader: Read, both: Any, tmp_path: Path) -> None:
    from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
    from astuner.settings.plugins.options import build_options

    made = reader(**both)
    expected = list(made.read("train"))
    section = {"training": {"file_path": str(made.generator.locate_saved("train").tasks_file)}}
    assert list(DatasetFileReader(build_options(DatasetFileReader, section, key=""), tmp_path).read("train")) == expected


def test_verified_questions_say_so(llm: ScriptedApi, reader: Read, small: Any) -> None:
    tasks = list(reader(document_reader=small, task_num=0, validation_task_num=4, verify=True).read("validation"))
    assert [origin["verified"] for origin in origins(tasks)] == [True] * 4
    assert sum("Answer the question below from this text alone" in prompt for prompt in llm.prompts()) >= 4


def test_an_answer_that_is_not_found_again_is_dropped(
    llm: ScriptedApi, reader: Read, small: Any, author: Callable[..., str]
) -> None:
    doubted: list[str] = []

    def doubtful(body: Mapping[str, Any], number: int) -> str:
        prompt = body["messages"][-1]["content"]
        if '"answerable"' in prompt and len(doubted) < 2:
            doubted.append(prompt.rpartition("Question:")[2].strip().split("\n")[0])
            return json.dumps({"answerable": len(doubted) == 1, "answer": "something else"})
        return author(body, number)

    llm.script = doubtful
    source = reader(document_reader=small, task_num=0, validation_task_num=6, verify=True)
    tasks = list(source.read("validation"))
    report = source.generator.report("validation")
    assert report is not None
    assert len(tasks) == 6
    assert not set(doubted) & set(queries(tasks))
    assert report["dropped"] == {"another_answer": 1, "not_answerable": 1}


def test_evidence_that_is_made_up_is_dropped_and_counted(
    llm: ScriptedApi, reader: Read, small: Any, author: Callable[..., str]
) -> None:
    def inventive(body: Mapping[str, Any], number: int) -> str:
        rows = json.loads(author(body, number))["questions"]
        for row in rows if number % 2 == 0 else ():
            row["evidence"] = "As everybody knows, it is so."
        rows.append({"question": "", "answer": "a", "evidence": "b"})
        rows.append({"question": "What is it?", "answer": None, "evidence": "b"})
        return json.dumps({"questions": rows})

    llm.script = inventive
    source = reader(document_reader=small, task_num=0, validation_task_num=3)
    tasks = list(source.read("validation"))
    report = source.generator.report("validation")
    assert report is not None
    assert all("everybody" not in task.metadata["evidence"] for task in tasks)
    assert report["dropped"]["evidence_not_in_text"] > 0
    assert "everybody knows" in report["examples"]["evidence_not_in_text"]


def test_training_repeats_nothing_of_validation(llm: ScriptedApi, reader: Read, both: Any, author: Callable[..., str]) -> None:
    asked: list[dict[str, str]] = []

    def copy_questions(body: Mapping[str, Any], number: int) -> str:
        rows = json.loads(author(body, number))["questions"]
        if "write tasks for training" in body["messages"][-1]["content"]:
            evidence = rows[0]["evidence"] if rows else ""
            return json.dumps({"questions": [{**asked[number % len(asked)], "evidence": evidence}, *rows]})
        asked.extend(rows)
        return json.dumps({"questions": rows})

    llm.script = copy_questions
    source = reader(**both)
    train, validation = list(source.read("train")), list(source.read("validation"))
    assert not set(queries(train)) & set(queries(validation))
    report = source.generator.report("train")
    assert report is not None
    assert report["dropped"]["duplicate_of_validation"] > 0


def test_requests_under_way_are_bounded(llm: ScriptedApi, reader: Read, both: Any) -> None:
    llm.pause_s = 0.3
    list(reader(**{**both, "num_workers": 2}).read("train"))
    assert llm.most_under_way == 2


def test_the_keys_of_the_original_reach_the_request(llm: ScriptedApi, reader: Read, both: Any) -> None:
    keys = {"llm_model": "qwen-max", "llm_response_length": 512, "sampling_params": {"temperature": 0.3, "top_p": 0.9}}
    list(reader(**both, **keys).read("validation"))
    body = llm.bodies[0]
    assert {name: body[name] for name in ("model", "max_tokens", "temperature", "top_p")} == {
        "model": "qwen-max",
        "max_tokens": 512,
        "temperature": 0.3,
        "top_p": 0.9,
    }


def test_the_whole_section_of_the_original_is_understood(reader: Read, documents: Path, samples: Path) -> None:
    made = reader(
        document_reader={
            "document_path": ["documents/one.txt", "documents/two.md"],
            "languages": ["eng"],
            "chunk_size": 5120,
            "split_by": "sentence",
            "cache_enabled": True,
        },
        query_reader={"type": "jsonl_dataset_file", "jsonl_dataset_file": {"training": {"file_path": samples.name}}},
        task_num=10,
        llm_model="qwen-long",
        llm_response_length=8192,
        num_workers=32,
        sampling_params={"temperature": 0},
        deduplication_filter={
            "enabled": True,
            "params": {
                "similarity_threshold": 0.8,
                "db_path": "./.similarity_db",
                "model": "text-embedding-v4",
                "api_key": None,
                "base_url": "https://dashscope.aliyuncs.com/compatible-mode/v1",
            },
        },
    )
    assert [made.generator.count_wanted(split) for split in ("train", "validation")] == [10, 10]
    assert made.generator.llm.concurrency == 32


def test_the_older_spelling_of_the_file_reader_is_understood(llm: ScriptedApi, reader: Read, samples: Path) -> None:
    section = {"type": "jsonl_dataset_file", "jsonl_dataset_file": {"training": {"file_path": samples.name}}}
    assert len(list(reader(query_reader=section, task_num=3).read("train"))) == 3


def test_chinese_documents_are_asked_about_in_chinese(llm: ScriptedApi, reader: Read, tmp_path: Path) -> None:
    (tmp_path / "zh.txt").write_text("北京是中国的首都。长江是中国最长的河流。" * 4)
    row = {"question": "中国最长的河流是什么？", "answer": "长江", "evidence": "长江是中国最长的\n河流"}
    llm.script = lambda body, number: json.dumps({"questions": [row]}, ensure_ascii=False)
    section = {"document_path": "zh.txt", "languages": ["chi_sim"], "chunk_size": 64}
    (task,) = reader(document_reader=section, task_num=0, validation_task_num=1).read("validation")
    assert (task.main_query, task.metadata["answer"]) == ("中国最长的河流是什么？", "长江")
    assert "只回答一个 JSON 对象" in llm.prompts()[0]


def test_a_sample_of_messages_makes_tasks_with_its_system_message(llm: ScriptedApi, reader: Read, tmp_path: Path) -> None:
    row = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 3 + 4?"}], "answer": 7}
    (tmp_path / "chat.jsonl").write_text(json.dumps(row) + "\n")
    section = {"type": "dataset_file", "dataset_file": {"training": {"file_path": "chat.jsonl"}}}
    (task,) = reader(query_reader=section, task_num=1).read("train")
    assert task.main_query
    assert [message["role"] for message in task.messages] == ["system", "user"]


def test_samples_without_answers_make_tasks_without_answers(llm: ScriptedApi, reader: Read, tmp_path: Path) -> None:
    (tmp_path / "open.jsonl").write_text('{"question": "Write a poem on 1 + 2."}\n')
    llm.script = lambda body, number: json.dumps({"questions": [{"question": f"Write a poem on the sea, number {number}."}]})
    section = {"type": "dataset_file", "dataset_file": {"training": {"file_path": "open.jsonl"}}}
    (task,) = reader(query_reader=section, task_num=1).read("train")
    assert "answer" not in task.metadata
    assert "right answer" not in llm.prompts()[0]


def test_it_is_read_where_an_event_loop_runs(llm: ScriptedApi, reader: Read, both: Any) -> None:
    async def inside() -> int:
        return len(list(reader(**both).read("validation")))

    assert asyncio.run(inside()) == 6


def test_more_validation_later_keeps_training_apart_from_it(llm: ScriptedApi, reader: Read, both: Any) -> None:
    first = reader(**both, llm={"max_requests": 1})
    assert 0 < len(list(first.read("validation"))) < 6
    second = reader(**both)
    assert len(list(second.read("train"))) == 12
    second.generator.make("validation")
    assert second.would_generate("train") is not None
    asked = len(llm.bodies)
    train, validation = list(second.read("train")), list(second.read("validation"))
    assert (len(train), len(validation)) == (12, 6)
    assert len(llm.bodies) == asked


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({}, "there is nothing to make tasks of"),
        ({"query_reader": {}, "validation_task_num": 3}, "validation tasks are questions on documents"),
        ({"query_reader": {}, "llm_model": "a", "llm": {"model_name": "b"}}, "llm_model is 'a' and llm.model_name 'b'"),
        ({"document_reader": {"document_path": "documents", "languages": ["fra"]}}, "language 'fra'; there are en"),
        (
            {"document_reader": {"document_path": "documents", "split_by": "word"}},
            "expected one of sentence, paragraph, character",
        ),
        ({"query_reader": {"type": "data_generation"}}, "generated tasks cannot be the samples"),
        ({"query_reader": {"type": "no_such_reader"}}, "no reader 'no_such_reader'"),
        ({"query_reader": {"dataset_file": {"trainning": {}}}}, r"query_reader\.dataset_file\.trainning"),
        ({"document_reader": {"document_path": "documents"}, "chunk_siz": 1}, "chunk_siz"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_asked(
    llm: ScriptedApi, reader: Read, documents: Path, section: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        reader(**section)
    assert llm.bodies == []


def test_one_chunk_is_not_enough_for_two_splits(llm: ScriptedApi, reader: Read, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The only fact of all is this.")
    with pytest.raises(DataError, match="validation_task_num: 0"):
        list(reader(document_reader={"document_path": "a.txt"}).read("train"))
    assert llm.bodies == []


def test_no_sample_at_all_is_named(llm: ScriptedApi, reader: Read, tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text('{"question": "q"}\n')
    section = {"type": "dataset_file", "dataset_file": {"validation": {"file_path": "v.jsonl"}}}
    with pytest.raises(DataError, match="yields no training task"):
        list(reader(query_reader=section).read("train"))


def test_chunks_that_training_goes_without_are_counted_and_said(
    llm: ScriptedApi, reader: Read, both: Any, documents: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (documents / "two.md").write_text(f"A sentence that stands in front. {(documents / 'one.txt').read_text()}")
    source = reader(**both)
    validation, train = list(source.read("validation")), list(source.read("train"))
    chunk_texts = [{origin["chunk_hash"] for origin in origins(tasks)} for tasks in (validation, train)]
    assert not chunk_texts[0] & chunk_texts[1]
    report = source.generator.report("train")
    assert report is not None
    assert report["chunks_left_out"] > 0
    assert f"left out: {report['chunks_left_out']} chunks" in capsys.readouterr().err
