"""The contract of sandboxes, held by `docker`: with a stand-in for the daemon, and with a real one.

As root, Debian's package `docker.io` brings one; CONTRIBUTING.md says how it is started without a service.
"""

from __future__ import annotations

from typing import ClassVar

import pytest
from machine_image import IMAGE

from astuner_devkit.contracts import SandboxContract


@pytest.mark.usefixtures("stand_in")
class TestDockerWithStandIn(SandboxContract):
    component = "astuner_agents.docker.sandboxes:DockerSandboxes"
    options: ClassVar = {"image": IMAGE}


@pytest.mark.docker
@pytest.mark.usefixtures("real_daemon")
class TestDocker(SandboxContract):
    component = "astuner_agents.docker.sandboxes:DockerSandboxes"
    options: ClassVar = {"image": IMAGE}
