"""The daemons of the tests: a stand-in, and a real one, where one answers at `DOCKER_HOST` or at the default place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from engine_stand_in import StandIn, find_obstacle
from machine_image import IMAGE, WITHOUT_INTERPRETER, import_image

from astuner.contract.errors import ServiceUnavailable

pytest.importorskip("docker", reason="astuner-agents[docker] is not installed")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A stand-in that the SDK finds, of which nothing may be left."""
    if problem := find_obstacle():
        pytest.skip(problem)
    # Not the directory of the test, whose path may be too long for a socket.
    with TemporaryDirectory(prefix="astuner-docker-") as directory:
        socket = Path(directory, "docker.sock")
        monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
        engine = StandIn(socket, Path(directory), [IMAGE])
        yield engine
        left = [one.id for one in engine.list_left() if not one.removed.wait(10)]
        engine.end()
    assert left == []


@pytest.fixture
def real_daemon(_images: str) -> None:
    """A real one, which has the images."""
    if _images:
        pytest.skip(_images)


@pytest.fixture(params=["stand_in", pytest.param("real_daemon", marks=pytest.mark.docker)])
def any_daemon(request: pytest.FixtureRequest) -> None:
    """Each of them."""
    request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def _images() -> str:
    """Return why there is no daemon; empty if it has the images."""
    from astuner_agents.docker.daemon import Daemon

    daemon = Daemon(None)
    try:
        import_image(daemon, IMAGE)
        import_image(daemon, WITHOUT_INTERPRETER, with_python=False)
    except ServiceUnavailable as error:
        return str(error)
    finally:
        daemon.close()
    return ""
