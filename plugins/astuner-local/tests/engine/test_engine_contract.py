from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from attrs import evolve

from astuner.contract.protocols import RunInfo
from astuner.settings.config.model import Config, Model
from astuner.settings.config.rollout import Rollout
from astuner_devkit.contracts.engine import EngineContract
from astuner_local.engine.plugin import LocalEngine


class TestLocalEngine(EngineContract):
    """With a model that it loads from a directory."""

    component = "astuner_local.engine.plugin:LocalEngine"
    options: ClassVar[dict[str, Any]] = {"device": "cpu"}
    vocab_size = 97
    make_model: ClassVar[Callable[..., Any]]

    @pytest.fixture(autouse=True)
    def _models(self, make_model: Callable[..., Any]) -> None:
        type(self).make_model = staticmethod(make_model)

    def prepare(self, directory: Path) -> None:
        self.make_model().save_pretrained(directory / "model")

    def run_info(self, directory: Path) -> RunInfo:
        config = Config(model=Model(path=str(directory / "model")), rollout=Rollout(max_model_len=256, max_num_seqs=4))
        return evolve(super().run_info(directory), config=config)

    def new_weights(self) -> Any:
        return self.make_model(seed=1)


class TestLocalEngineOverAModule(TestLocalEngine):
    """With the live module of a trainer."""

    def make(self, directory: Path) -> Any:
        self.module = self.make_model()
        return LocalEngine.from_module(self.module, max_model_len=256, max_num_seqs=4)

    def new_weights(self) -> Any:
        return self.module
