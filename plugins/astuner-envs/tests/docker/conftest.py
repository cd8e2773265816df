"""The daemon of the tests that need a real one: the one that answers at `DOCKER_HOST`, or the default one."""

from __future__ import annotations

import pytest
from machine_image import IMAGE, WITHOUT_INTERPRETER, import_image

from astuner.errors import ServiceUnavailable

pytest.importorskip("docker", reason="astuner-envs[docker] is not installed")


@pytest.fixture(autouse=True)
def _need_daemon(request: pytest.FixtureRequest) -> None:
    """Give the images to the daemon, or skip the test."""
    if request.node.get_closest_marker("docker") is not None:
        problem = request.getfixturevalue("_images")
        if problem:
            pytest.skip(problem)


@pytest.fixture(scope="session")
def _images() -> str:
    """Return why there is no daemon; empty if it has the images."""
    from astuner_envs.docker.daemon import Daemon

    daemon = Daemon(None)
    try:
        import_image(daemon, IMAGE)
        import_image(daemon, WITHOUT_INTERPRETER, with_python=False)
    except ServiceUnavailable as error:
        return str(error)
    finally:
        daemon.close()
    return ""
