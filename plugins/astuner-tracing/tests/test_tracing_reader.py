"""The reader in a run: it reads once, says what it read, and goes on with the tasks that it began with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from astuner.contract.errors import ConfigError, DataError
from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
from astuner.settings.config.sections import DatasetFileSection, FileSplit
from astuner.settings.config.structuring import structure_options
from astuner_devkit.command_line import run_command
from astuner_devkit.project import write_project
from astuner_devkit.run_infos import run_info
from astuner_tracing.options import TracingOptions
from astuner_tracing.reader import TracingReader

Make = Callable[..., Any]

ORIGINAL = """
base_url: traces.jsonl
train_output_path: tasks.jsonl
alien_llm_model: qwen3-235b-a22b-instruct-2507
alien_llm_response_length: 2048
filters:
  - type: llm_evaluate
    enabled: false
    params:
      custom_rubrics: |
        1. Check the answer and drop the task if it does not answer or answer is wrong.
      temperature: 0.5
      print_reason: false
      max_thread: 16
  - type: deduplication
    enabled: true
    params:
      similarity_threshold: 0.8
"""


def options(values: dict[str, Any]) -> TracingOptions:
    return structure_options(TracingOptions, values, key="astuner.task_reader.tracing", locate=lambda key: None)


def reader(directory: Path, *, runs: bool = True, **values: Any) -> tuple[TracingReader, list[tuple[str, str]]]:
    info = run_info(directory, attempt=int(runs))
    made, said = TracingReader.from_run(options({"sources": "traces.jsonl", **values}), info), []
    made.report_to(lambda text, level: said.append((text, level)))
    return made, said


def test_what_was_read_is_said_once(write: Make, asked: Make, tmp_path: Path):
    write(asked(1, "A?"), asked(2, "B?", None), "nonsense")
    made, said = reader(tmp_path)
    for _ in range(2):
        assert [task.main_query for task in made.read("train")] == ["A?"]
        assert list(made.read("validation")) == []
    ((text, level),) = said
    assert level == "warning"
    for part in ("2 spans", "left out: 1: no answer", "broken: 1: not valid JSON (traces.jsonl:3)", "1 for training"):
        assert part in text


def test_a_task_carries_what_a_judge_and_an_agent_need(write: Make, asked: Make, tmp_path: Path):
    write(asked(1, "A?", "Because.", conversation="c"))
    (task,) = reader(tmp_path)[0].read("train")
    assert (task.main_query, task.init_messages, task.env_type) == ("A?", (), "no_env")
    assert task.metadata["answer"] == "Because."
    assert task.metadata["trace"]["source"] == "traces.jsonl"
    assert task.metadata["trace"]["time"] == "2026-11-18T11:06:41.000+00:00"


def test_a_run_that_goes_on_has_the_tasks_that_it_began_with(write: Make, asked: Make, tmp_path: Path):
    write(asked(1, "A?"))
    assert len(list(reader(tmp_path)[0].read("train"))) == 1
    write(asked(1, "A?"), asked(2, "B?"))
    later, said = reader(tmp_path)
    assert len(list(later.read("train"))) == 1
    assert "earlier reading" in said[0][0]
    # Other options are another reading.
    assert len(list(reader(tmp_path, keep_system_prompt=False)[0].read("train"))) == 2


def test_looking_at_what_a_run_would_take_keeps_nothing_and_asks_nobody(
    write: Make, asked: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    write(asked(1, "A?"))
    made, said = reader(tmp_path, runs=False, filters=[{"type": "llm_evaluate"}], train_output_path="tasks.jsonl")
    assert len(list(made.read("train"))) == 1
    assert "no LLM is asked to see what a run would take" in said[0][0]
    assert [path.name for path in tmp_path.iterdir()] == ["traces.jsonl"]


@pytest.mark.parametrize("command", [["run", "--backbone=debug", "--dry-run"], ["data", "stats"], ["data", "preview"]])
def test_looking_at_a_run_that_there_is_keeps_nothing_and_asks_nobody(
    write: Make, asked: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    write(asked(1, "A?"))
    section = {"sources": "traces.jsonl", "filters": [{"type": "llm_evaluate"}], "train_output_path": "tasks.jsonl"}
    conf = write_project(tmp_path, settings={"task_reader": {"type": "tracing", "tracing": section}})
    directory = tmp_path / "launcher_record" / "project"
    directory.mkdir(parents=True)
    looked = run_command(*command, "--conf", conf, cwd=tmp_path)
    assert looked.code == 0, looked.err
    assert "no LLM is asked to see what a run would take" in looked.out + looked.err
    assert (list(directory.iterdir()), (tmp_path / "tasks.jsonl").exists()) == ([], False)


def test_what_a_run_has_read_is_what_is_looked_at(write: Make, asked: Make, tmp_path: Path):
    write(asked(1, "A?"))
    assert len(list(reader(tmp_path)[0].read("train"))) == 1
    write(asked(1, "A?"), asked(2, "B?"))
    assert len(list(reader(tmp_path, runs=False)[0].read("train"))) == 1


def test_the_yaml_of_the_public_original_is_understood(write: Make, asked: Make, tmp_path: Path):
    write(asked(1, "How do I reset my password?"), asked(2, "How do I reset my passwords?"), asked(3, "Who?"))
    info = run_info(tmp_path)
    info.directory.mkdir(parents=True, exist_ok=True)
    made = TracingReader.from_run(options(yaml.safe_load(ORIGINAL)), info)
    assert [task.main_query for task in made.read("train")] == ["How do I reset my password?", "Who?"]
    assert len((tmp_path / "tasks.jsonl").read_text().splitlines()) == 2


def test_what_is_written_is_what_dataset_file_reads(write: Make, asked: Make, tmp_path: Path):
    write(*(asked(number, f"Question {number}? \ud800 \u2028", conversation="c") for number in range(1, 4)))
    assert run_command("trace", "import", "traces.jsonl", "--out", "tasks.jsonl", cwd=tmp_path).code == 0
    section = DatasetFileSection(training=FileSplit(file_path="tasks.jsonl"))
    from_file = list(DatasetFileReader(section, tmp_path).read("train"))
    assert from_file == list(reader(tmp_path)[0].read("train"))
    assert len(from_file) == 3


def test_flags_and_variables_of_a_task_stay_as_they_are(write: Make, asked: Make, tmp_path: Path):
    query, answer = "Sort by ROW_KEY=user_id12 with MAX_TOKEN=512.", "sort --key 2,2n --token Ab3dEf6hIj"
    write(asked(1, query, answer))
    [task] = reader(tmp_path)[0].read("train")
    assert (task.main_query, task.metadata["answer"]) == (query, answer)


def test_a_key_that_a_user_wrote_is_replaced_and_counted(write: Make, asked: Make, tmp_path: Path):
    key = "sk-proj-abcdefghijklmnop1234567890"
    write(asked(1, f"Why does {key} fail?", f"The key {key} is old."), asked(2, "What is 6*7?", "42"))
    made, told = reader(tmp_path)
    (first, second) = made.read("train")
    assert (first.main_query, first.metadata["answer"]) == ("Why does <redacted> fail?", "The key <redacted> is old.")
    assert (second.main_query, second.metadata["answer"]) == ("What is 6*7?", "42")
    assert "secrets: 1 tasks had some" in str(told)


def test_sources_are_needed(tmp_path: Path):
    made, _ = reader(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        next(made.read("train"))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "at least one source"),
        ({"sources": "a", "filters": [{"type": "deduplication", "params": {"similarity_threshold": 2}}]}, "is a share"),
        ({"sources": "a", "filters": [{"type": "deduplication", "params": {"db_path": "x"}}]}, "db_path"),
        ({"sources": "a", "filters": [{"type": "dedupe"}]}, "deduplication"),
        ({"sources": "a", "validation_after": "yesterday"}, "2026-11-20"),
        ({"sources": "a", "validation_after": "2026-11-20", "validation_fraction": 0.1}, "two rules"),
        ({"sources": "a", "annotators": ["me"]}, "human"),
    ],
)
def test_wrong_options_are_found_before_anything_is_read(values: dict[str, Any], said: str):
    with pytest.raises(ConfigError) as caught:
        options(values)
    assert said in str(caught.value)


def test_the_group_lists_its_commands_and_import_prints_one_document(write: Make, asked: Make, tmp_path: Path):
    assert "collect" in run_command("trace", "--help", cwd=tmp_path).out
    write(asked(1, "A?"))
    done = run_command("trace", "import", "traces.jsonl", "--out", "tasks.jsonl", "--json", cwd=tmp_path)
    assert json.loads(done.out)["files"] == {"train": str(tmp_path.resolve() / "tasks.jsonl")}
    plain = run_command("trace", "import", "traces.jsonl", "--out", "tasks.jsonl", cwd=tmp_path)
    assert plain.out.splitlines()[-1].split("  ")[-1].strip() == "1 for training, 0 for validation"


def test_feedback_of_llms_counts_when_asked_for(write: Make, asked: Make, tmp_path: Path):
    said = {"gen_ai.evaluation.name": "helpful", "gen_ai.evaluation.score.value": "1"}
    event = {
        "name": "gen_ai.evaluation.result",
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in said.items()],
    }
    write(asked(1, "A?", events=[event]))
    assert "reward" not in next(reader(tmp_path)[0].read("train")).metadata
    assert next(reader(tmp_path, annotators=["human", "llm"])[0].read("train")).metadata["reward"] == 1.0
    named = reader(tmp_path, annotators="llm", annotation_names="other")[0]
    assert "reward" not in next(named.read("train")).metadata
