from __future__ import annotations

from astuner.testing.contracts.package import PackageContract


class TestPackage(PackageContract):
    distribution = "astuner-trinity"
