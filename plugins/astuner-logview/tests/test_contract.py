"""The package and its command keep the contracts of astuner."""

from __future__ import annotations

from astuner_devkit.contracts import CommandContract, PackageContract


class TestPackage(PackageContract):
    distribution = "astuner-logview"


class TestCommand(CommandContract):
    component = "astuner_logview.commands:logview"
