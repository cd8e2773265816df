"""The contract of sandboxes, held by our own."""

from __future__ import annotations

from typing import ClassVar

import pytest

from astuner.contract.errors import PluginError
from astuner_agents.sandboxes.bubblewrap import BubblewrapSandboxes
from astuner_devkit.contracts import SandboxContract


def can_use_bubblewrap() -> bool:
    try:
        BubblewrapSandboxes(BubblewrapSandboxes.Options()).check()
    except PluginError:
        return False
    return True


class TestLocal(SandboxContract):
    component = "astuner_agents.sandboxes.local:LocalSandboxes"


class TestLocalWithoutWarmOnes(SandboxContract):
    component = "astuner_agents.sandboxes.local:LocalSandboxes"
    options: ClassVar = {"warm": 0, "directory": "./sandboxes"}


@pytest.mark.skipif(not can_use_bubblewrap(), reason="bubblewrap cannot be used here")
class TestBubblewrap(SandboxContract):
    component = "astuner_agents.sandboxes.bubblewrap:BubblewrapSandboxes"
