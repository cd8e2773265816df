"""The judge `rubrics_auto_grader` keeps the contract of judges in both modes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner_devkit.contracts import JudgeContract
from astuner_devkit.scripted_api import Reply, ScriptedApi

RUBRICS = "themes: [The answer gives units., The answer gives steps., The answer gives sources., The answer gives checks.]\n"


class _ByRubrics(JudgeContract):
    component = "astuner_judges.rubrics.judge:RubricsAutoGrader"
    api: ScriptedApi

    @pytest.fixture(autouse=True)
    def _with_an_llm(self, api: ScriptedApi) -> None:
        self.api = api

    def prepare(self, directory: Path) -> None:
        (directory / "rubrics.yaml").write_text(RUBRICS, encoding="utf-8")

    def break_calls(self, judge: Any) -> None:
        self.api.script = lambda body, number: Reply(400, {"error": {"message": "broken"}})


class TestPointwise(_ByRubrics):
    options: ClassVar[Mapping[str, Any]] = {"rubrics_file": "rubrics.yaml"}


class TestListwise(_ByRubrics):
    options: ClassVar[Mapping[str, Any]] = {"rubrics_file": "rubrics.yaml", "grader_mode": "listwise"}


del _ByRubrics
