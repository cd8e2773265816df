"""What a run was made from is compared at a resume: tasks and model are refused, code and versions reported."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict

from astuner.contract.errors import UsageError
from astuner.contract.schema import Task
from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
from astuner.episodes.rollout.steady_tasks import TaskDigest, digest_task, digest_tasks
from astuner.runs.driver.source_changes import SourceChanges, find_changes
from astuner.runs.driver.sources import _fingerprint_models
from astuner.runs.store.fingerprints import WHOLE, compare_fingerprints, fingerprint_file, fingerprint_files, fingerprint_model
from astuner.settings.config.sections import DatasetFileSection, FileSplit


def digest(tasks: Iterable[Task]) -> TaskDigest:
    return digest_tasks((task.task_id, digest_task(task)) for task in tasks)[0]


TASKS = [Task(main_query=f"{number} + 1", task_id=str(number), metadata={"answer": number + 1}) for number in range(4)]
FACTS: dict[str, Any] = {
    "versions": {"astuner-core": "0.2.0"},
    "plugins": [{"distribution": "acme-judge", "version": "1.0"}],
    "sources": {
        "data": {
            "train": asdict(digest(TASKS)),
            "validation": asdict(digest([])),
            "files": {"tasks/train.jsonl": "10:aaaa"},
            "revisions": {"org/tasks": "1111"},
        },
        "code": {"agent.py": "5:bbbb"},
        "model": {"model": {"model.safetensors": "100:cccc"}},
    },
}


def change(**parts: Any) -> SourceChanges:
    """Compare the facts with those in which some parts of the sources are others."""
    now = copy.deepcopy(FACTS)
    for name, value in parts.items():
        place, _, key = name.partition("__")
        now["sources"][place] = {**now["sources"][place], key: value} if key else value
    return find_changes(FACTS, now)


def test_the_same_sources_have_no_changes():
    assert change() == SourceChanges()


@pytest.mark.parametrize(
    ("tasks", "what"),
    [
        (TASKS[:3], "the training tasks were 4 and are 3"),
        (TASKS[::-1], "the training tasks are the same in another order"),
        ([*TASKS[:3], Task(main_query="?", task_id="3")], "the training tasks have the same ids and another content"),
        ([*TASKS[:3], Task(main_query="?", task_id="9")], "the training tasks are others, as many as before"),
    ],
    ids=["fewer", "another order", "another content", "others"],
)
def test_other_tasks_are_described_with_the_file_that_changed(tasks, what):
    found = change(data__train=asdict(digest(tasks)), data__files={"tasks/train.jsonl": "12:dddd"})
    assert found.data == (
        "tasks/train.jsonl changed (10 bytes then, 12 now; sha256 aaaa… then, dddd… now)",
        what,
    )


def test_a_file_with_the_same_tasks_is_no_change_of_the_data():
    found = change(data__files={"tasks/train.jsonl": "12:dddd"})
    assert (found.data, found.rewritten) == ((), ("tasks/train.jsonl",))


def test_another_revision_of_the_same_tasks_is_a_version():
    assert change(data__revisions={"org/tasks": "2222"}).versions == ("org/tasks: was 1111 and is 2222",)


def test_changes_are_refused_with_the_flags_that_accept_them():
    found = change(data__train=asdict(digest([])), model__model={"model.safetensors": "100:eeee"})
    with pytest.raises(UsageError, match="With --accept-changes data --accept-changes model it is resumed"):
        found.check_accepted("calculator", ())
    with pytest.raises(UsageError, match=r"the model: model\.safetensors changed"):
        found.check_accepted("calculator", ["data"])
    found.check_accepted("calculator", ["data", "model"])


def test_code_and_versions_are_never_refused():
    now = {**copy.deepcopy(FACTS), "plugins": [{"distribution": "acme-judge", "version": "1.1"}]}
    now["sources"]["code"] = {"agent.py": "6:ffff", "judge.py": "1:aaaa"}
    found = find_changes(FACTS, now)
    found.check_accepted("calculator", ())
    assert found.versions == ("acme-judge was 1.0 and is 1.1",)
    assert found.code == ("agent.py changed (5 bytes then, 6 now; sha256 bbbb… then, ffff… now)", "judge.py is new")


def test_a_record_of_an_older_version_is_not_compared():
    older = {key: value for key, value in FACTS.items() if key != "sources"}
    assert find_changes(older, FACTS) == SourceChanges()
    assert find_changes({}, FACTS) == SourceChanges()


def test_metadata_of_any_kind_has_a_digest():
    circle: dict[str, Any] = {}
    circle["self"] = circle
    odd = [Task(task_id="a", metadata={"x": value}) for value in (circle, {1: 2, "b": object()}, "\ud800", {1, 2})]
    assert digest(odd) == digest(odd)


def test_files_have_the_same_names_wherever_their_project_is(tmp_path):
    for name in ("here", "there"):
        (tmp_path / name / "project").mkdir(parents=True)
        (tmp_path / name / "shared.txt").write_text("shared")
        (tmp_path / name / "project" / "own.txt").write_text("own")

    def fingerprint(home: Path) -> dict[str, str]:
        return fingerprint_files([home / "shared.txt", home / "project" / "own.txt", home / "gone.txt"], home / "project")

    assert fingerprint(tmp_path / "here") == fingerprint(tmp_path / "there")
    assert [*fingerprint(tmp_path / "here")] == ["own.txt", "../shared.txt"]


def test_trained_weights_of_any_size_have_another_fingerprint(tmp_path):
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.truncate(WHOLE * 3)
    before = fingerprint_file(path)
    assert before.startswith(f"{WHOLE * 3}:")
    for position in (0, WHOLE * 3 - 1):
        with path.open("r+b") as file:
            file.seek(position)
            file.write(b"\1")
        assert fingerprint_file(path) != before
        before = fingerprint_file(path)


def test_notes_for_people_are_not_of_the_model(tmp_path):
    (tmp_path / "trainer").mkdir()
    for name in ("config.json", "README.md", ".gitattributes", "manifest.json", "trainer/trainer.json"):
        (tmp_path / name).write_text("{}")
    assert [*fingerprint_model(tmp_path)] == ["config.json"]


def test_the_base_of_adapters_is_compared_too(tmp_path):
    for name, content in (("base", {}), ("adapters", {"base_model_name_or_path": str(tmp_path / "base"), "r": 4})):
        (tmp_path / name).mkdir()
        (tmp_path / name / ("adapter_config.json" if content else "config.json")).write_text(json.dumps(content))
    before = _fingerprint_models(str(tmp_path / "adapters"))
    (tmp_path / "base" / "config.json").write_text("[]")
    now = _fingerprint_models(str(tmp_path / "adapters"))
    assert [part for part in before if before[part] != now[part]] == ["base_model"]


def test_a_file_that_came_or_went_is_named():
    assert compare_fingerprints({"a": "1:a"}, {"b": "1:a"}) == {"a": "is gone", "b": "is new"}


def test_the_reader_of_files_lists_those_of_both_splits(tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text('{"main_query": "1"}\n')
    both = DatasetFileSection(training=FileSplit(file_path="a.jsonl"), validation=FileSplit(file_path="b.jsonl"))
    found = [*DatasetFileReader(both, tmp_path).list_files()]
    assert found == [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
