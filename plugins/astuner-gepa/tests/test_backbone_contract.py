from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_project import script, write_project

from astuner_devkit.contracts import BackboneContract
from astuner_devkit.scripted_api import ScriptedApi, scripted_api
from astuner_gepa.backbone import GepaBackbone


class TestGepaBackbone(BackboneContract):
    component = GepaBackbone
    api: ScriptedApi

    @pytest.fixture(autouse=True)
    def serve(self) -> Iterator[None]:
        with scripted_api(script()) as self.api:
            yield

    def conf(self, directory: Path) -> Path:
        return write_project(directory, self.api, {"perfect_score": None}, trainer_common={"total_training_steps": 5})
