"""The backbone `local` keeps the contract of backbones, on the project that the quickstart writes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from astuner_devkit.contracts.backbone import BackboneContract


class TestLocalBackbone(BackboneContract):
    component = "astuner_local.backbone:LocalBackbone"
    project: ClassVar[Path]

    @pytest.fixture(autouse=True)
    def _written(self, quickstart: Path) -> None:
        type(self).project = quickstart

    def conf(self, directory: Path) -> Path:
        """Write the project made small: three steps, few tasks, few tokens."""
        shutil.copytree(self.project, directory, ignore=shutil.ignore_patterns("model", "launcher_record"), dirs_exist_ok=True)
        (directory / "model").symlink_to(self.project / "model")
        conf = directory / "tune.yaml"
        document = yaml.safe_load(conf.read_text())
        section = document["astuner"]
        section["data"]["train_batch_size"] = 2
        section["rollout"]["num_repeat"] = 2
        section["trainer_common"] |= {"total_training_steps": 3, "val_before_train": False, "logger": ["jsonl"]}
        validation = directory / "tasks" / "validation.jsonl"
        validation.write_text("".join(validation.read_text().splitlines(keepends=True)[:2]))
        conf.write_text(yaml.safe_dump(document))
        return conf
