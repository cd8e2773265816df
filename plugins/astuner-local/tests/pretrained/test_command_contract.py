"""`astuner model` keeps the contract of commands."""

from __future__ import annotations

from astuner_devkit.contracts import CommandContract


class TestModel(CommandContract):
    component = "astuner_local.pretrained.commands:model"
    name = "model"
