from __future__ import annotations

from astuner_devkit.contracts.package import PackageContract


class TestPackage(PackageContract):
    distribution = "astuner-tinker"
