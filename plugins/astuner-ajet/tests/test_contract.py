"""The reader keeps the contract of readers, and the package that of packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from astuner_devkit.contracts import PackageContract, ReaderContract


class TestRandomTasks(ReaderContract):
    component = "astuner_ajet.random_tasks:RandomTasksReader"
    options: ClassVar[Mapping[str, Any]] = {"count": 5}
    splits = ("train", "validation")


class TestPackage(PackageContract):
    distribution = "astuner-ajet"
