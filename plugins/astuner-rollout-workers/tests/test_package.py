from __future__ import annotations

from astuner_devkit.contracts import PackageContract


class TestPackage(PackageContract):
    distribution = "astuner-rollout-workers"
