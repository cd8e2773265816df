"""The reader `huggingface_dat_repo` keeps the contract of readers, and the package that of packages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner_devkit.contracts import PackageContract, ReaderContract

datasets = pytest.importorskip("datasets", reason="comes with the extra hf")


class TestALocalDirectory(ReaderContract):
    component = "astuner_readers.huggingface:HuggingFaceReader"
    options: ClassVar[Mapping[str, Any]] = {"dataset_path": "data", "validation_split": "test"}
    splits = ("train", "validation")

    def prepare(self, directory: Path) -> None:
        for split in ("train", "test"):
            rows = [{"question": f"{split} {n}?", "answer": f"#### {n}", "steps": [n, n + 1]} for n in range(5)]
            (directory / "data").mkdir(exist_ok=True)
            datasets.Dataset.from_list(rows).to_parquet(str(directory / "data" / f"{split}.parquet"))


class TestAStream(TestALocalDirectory):
    options: ClassVar[Mapping[str, Any]] = {**TestALocalDirectory.options, "streaming": True}


class TestNoValidation(TestALocalDirectory):
    options: ClassVar[Mapping[str, Any]] = {"dataset_path": "data", "validation_split": None}
    splits = ("train",)


class TestPackage(PackageContract):
    distribution = "astuner-readers"
