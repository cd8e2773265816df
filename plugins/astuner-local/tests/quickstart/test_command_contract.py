"""`astuner quickstart` keeps the contract of commands."""

from __future__ import annotations

from astuner_devkit.contracts import CommandContract


class TestQuickstart(CommandContract):
    component = "astuner_local.quickstart.command:quickstart"
    name = "quickstart"
