"""The contract of sandboxes, held by our own."""

from __future__ import annotations

from typing import ClassVar

import pytest

from astuner.builtin.sandboxes.bubblewrap import BubblewrapSandboxes
from astuner.errors import PluginError
from astuner.testing.contracts import SandboxContract


def can_use_bubblewrap() -> bool:
    try:
        BubblewrapSandboxes(BubblewrapSandboxes.Options()).check()
    except PluginError:
        return False
    return True


class TestLocal(SandboxContract):
    component = "astuner.builtin.sandboxes.local:LocalSandboxes"


class TestLocalWithoutWarmOnes(SandboxContract):
    component = "astuner.builtin.sandboxes.local:LocalSandboxes"
    options: ClassVar = {"warm": 0, "directory": "./sandboxes"}


@pytest.mark.skipif(not can_use_bubblewrap(), reason="bubblewrap cannot be used here")
class TestBubblewrap(SandboxContract):
    component = "astuner.builtin.sandboxes.bubblewrap:BubblewrapSandboxes"
