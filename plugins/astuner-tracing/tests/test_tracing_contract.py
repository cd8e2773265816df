"""The reader `tracing` keeps the contract of readers over each kind of source."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner_devkit.contracts import ReaderContract

DATA = Path(__file__).parent / "data"


class TestAnOtlpFile(ReaderContract):
    component = "astuner_tracing.reader:TracingReader"
    options: ClassVar[Mapping[str, Any]] = {"sources": "traces*.jsonl", "validation_after": "2026-11-18T11:06:50+00:00"}
    splits = ("train", "validation")

    @pytest.fixture(autouse=True)
    def _asked(self, asked: Callable[..., dict[str, Any]]) -> None:
        self._make = asked

    def prepare(self, directory: Path) -> None:
        for part in range(2):
            spans = [self._make(number, f"Question {number}?", conversation=f"c{number}") for number in range(1 + part, 20, 2)]
            document = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
            (directory / f"traces.{part}.jsonl").write_text(json.dumps(document) + "\n")


class TestRecordedByAgentScope(ReaderContract):
    component = "astuner_tracing.reader:TracingReader"
    options: ClassVar[Mapping[str, Any]] = {"sources": ["agentscope_1.0.21_otlp.jsonl", "agentscope_2.0.10_otlp.jsonl"]}

    def prepare(self, directory: Path) -> None:
        for name in self.options["sources"]:
            shutil.copy(DATA / name, directory / name)


class TestAStudioDatabase(ReaderContract):
    component = "astuner_tracing.reader:TracingReader"
    options: ClassVar[Mapping[str, Any]] = {"sources": "studio.sqlite"}

    @pytest.fixture(autouse=True)
    def _studio(self, new_studio: Callable[[Path], None]) -> None:
        self._make = new_studio

    def prepare(self, directory: Path) -> None:
        self._make(directory / "studio.sqlite")


class TestAnOldStudioDatabase(TestAStudioDatabase):
    @pytest.fixture(autouse=True)
    def _studio(self, old_studio: Callable[[Path], None]) -> None:
        self._make = old_studio


class TestAPhoenixDatabase(ReaderContract):
    component = "astuner_tracing.reader:TracingReader"
    options: ClassVar[Mapping[str, Any]] = {"sources": "phoenix.db", "project": "default"}

    def prepare(self, directory: Path) -> None:
        shutil.copy(DATA / "phoenix_20.26.1.db", directory / "phoenix.db")


class TestAPhoenixServer(ReaderContract):
    component = "astuner_tracing.reader:TracingReader"

    @pytest.fixture(autouse=True)
    def _phoenix(self, phoenix: str) -> None:
        type(self).options = {"sources": phoenix, "filters": []}
