"""The reader `data_generation` keeps the contract of readers: with documents, with samples, and with both."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner_devkit.contracts import ReaderContract
from astuner_devkit.scripted_api import ScriptedApi

SAMPLES = {"type": "dataset_file", "dataset_file": {"training": {"file_path": "samples.jsonl"}}}


@pytest.mark.usefixtures("llm")
class TestDocuments(ReaderContract):
    component = "astuner_datagen.reader:DataGenerationReader"
    options: ClassVar[Mapping[str, Any]] = {"document_reader": {"document_path": "a.txt", "chunk_size": 200}, "task_num": 4}
    splits = ("train", "validation")

    @pytest.fixture(autouse=True)
    def _documents(self, facts: Callable[..., str]) -> None:
        self.text = facts(20)

    def prepare(self, directory: Path) -> None:
        (directory / "a.txt").write_text(self.text)
        (directory / "samples.jsonl").write_text(json.dumps({"question": "What is 1 + 2?", "answer": "3"}) + "\n")


@pytest.mark.usefixtures("llm")
class TestSamples(TestDocuments):
    options: ClassVar[Mapping[str, Any]] = {"query_reader": SAMPLES, "task_num": 4}
    splits = ("train",)


@pytest.mark.usefixtures("llm")
class TestBoth(TestDocuments):
    options: ClassVar[Mapping[str, Any]] = {**TestDocuments.options, "query_reader": SAMPLES}


def test_only_the_first_reading_asks(llm: ScriptedApi, tmp_path: Path, facts: Callable[..., str]) -> None:
    contract = TestBoth()
    contract.text = facts(20)
    contract.test_the_order_is_the_same_every_time(tmp_path)
    asked = len(llm.bodies)
    contract.test_a_fresh_reader_reads_the_same(tmp_path)
    assert len(llm.bodies) == asked > 0
