"""What real software wrote down becomes the task that was asked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit.command_line import run_command


def imported(tmp_path: Path, *arguments: object) -> list[dict[str, Any]]:
    done = run_command("trace", "import", *arguments, "--out", tmp_path / "tasks.jsonl", cwd=tmp_path)
    assert done.code == 0, done.err
    return [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("name", "trace"),
    [
        ("agentscope_1.0.21_otlp.jsonl", "85a321622af61c7a65557ad5a4e0726b"),
        ("agentscope_2.0.10_otlp.jsonl", "72fa2795036fa4df81da436e127cb360"),
        ("phoenix_20.26.1.db", "2416f0f4bf21727a424fa6a0ce9e1cba"),
    ],
)
def test_a_recorded_trace_is_one_task(recorded: Path, tmp_path: Path, name: str, trace: str):
    (row,) = imported(tmp_path, recorded / name)
    assert row["main_query"] == "What is 6*7?"
    assert row["init_messages"] == [{"role": "system", "content": "You are a math agent. Put answer in \\boxed{}."}]
    assert row["metadata"]["answer"] == "The answer is \\boxed{42}."
    assert row["metadata"]["tools"] == ["calculator"]
    assert (row["metadata"]["trace"]["trace_id"], row["metadata"]["trace"]["agent"]) == (trace, "friday")


def test_a_thumbs_up_in_phoenix_is_a_reward(recorded: Path, tmp_path: Path):
    (row,) = imported(tmp_path, recorded / "phoenix_20.26.1.db")
    assert row["metadata"]["reward"] == 1.0
    assert row["metadata"]["feedback"][0]["label"] == "thumbs_up"


def test_a_database_that_is_read_is_not_touched(recorded: Path, tmp_path: Path):
    own = tmp_path / "phoenix.db"
    own.write_bytes((recorded / "phoenix_20.26.1.db").read_bytes())
    before = hashlib.sha256(own.read_bytes()).digest()
    imported(tmp_path, own)
    assert hashlib.sha256(own.read_bytes()).digest() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["phoenix.db", "tasks.jsonl"]


def test_a_session_of_agentscope_1_is_named_without_its_quotes(recorded: Path, tmp_path: Path):
    (row,) = imported(tmp_path, recorded / "agentscope_1.0.21_otlp.jsonl")
    assert row["metadata"]["conversation_id"] == "jKHYUV4tXRjXxxMRLVRjzY"


def test_a_phoenix_server_gives_spans_and_annotations_of_spans_traces_and_sessions(phoenix: str, tmp_path: Path):
    liked, disliked = imported(tmp_path, phoenix, "--keep-duplicates")
    assert [(one["name"], one.get("score")) for one in liked["metadata"]["feedback"]] == [
        ("user_feedback", 1.0),
        ("session_vote", 0.5),
    ]
    assert liked["metadata"]["reward"] == 0.75
    # The judgement of an LLM on the same span is not a user's.
    assert disliked["metadata"]["reward"] == 0.0
    assert disliked["metadata"]["rejected_answer"] == "The answer is \\boxed{42}."
    assert "answer" not in disliked["metadata"]


def test_a_project_of_a_phoenix_server_goes_by_its_id_too(phoenix: str, tmp_path: Path):
    by_name, by_id = (imported(tmp_path, phoenix, f"--project={name}") for name in ("default", "UHJvamVjdDox"))
    assert by_id == by_name


def test_the_studio_of_2025_kept_messages_as_python(old_studio: Callable[[Path], None], tmp_path: Path):
    old_studio(tmp_path / "database.sqlite")
    first, second = imported(tmp_path, tmp_path / "database.sqlite")
    assert (first["main_query"], first["metadata"]["answer"]) == ('What\'s 6*7, she asked: "6*7"?', "42")
    assert (second["main_query"], second["metadata"]["answer"]) == ("Line\nbreaks, too?", "Yes.")
    assert second["metadata"]["conversation_id"] == "run-2"


def test_the_studio_of_today_keeps_attributes_nested(new_studio: Callable[[Path], None], tmp_path: Path):
    new_studio(tmp_path / "database.sqlite")
    first, second = imported(tmp_path, tmp_path / "database.sqlite")
    assert (first["main_query"], first["metadata"]["answer"]) == ("Capital of France?", "Paris.")
    assert first["init_messages"] == [{"role": "system", "content": "Be brief."}]
    # Messages may be an object where one would expect a list.
    assert (second["main_query"], second["metadata"]["answer"]) == ("And of Spain?", "Madrid.")
    assert {row["metadata"]["conversation_id"] for row in (first, second)} == {"chat-7"}
