"""The contract of sandboxes, held by `docker` with a real daemon.

As root, Debian's package `docker.io` brings one; CONTRIBUTING.md says how it is started without a service.
"""

from __future__ import annotations

from typing import ClassVar

import machine_image
import pytest

from astuner.testing.contracts import SandboxContract


@pytest.mark.docker
class TestDocker(SandboxContract):
    component = "astuner_envs.docker.sandboxes:DockerSandboxes"
    options: ClassVar = {"image": machine_image.IMAGE}
