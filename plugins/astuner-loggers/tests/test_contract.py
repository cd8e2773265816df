"""The logger `tensorboard` keeps the contract of loggers, and the package that of packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from astuner_devkit.contracts import LoggerContract, PackageContract


class TestTensorboard(LoggerContract):
    component = "astuner_loggers.tensorboard:TensorboardLogger"
    options: ClassVar[Mapping[str, Any]] = {"directory": "events", "episodes": 2}


class TestPackage(PackageContract):
    distribution = "astuner-loggers"
