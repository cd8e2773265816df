"""The server that most tests share."""

from __future__ import annotations

import pytest
from environment_servers import Serve, Server, serve

__all__ = ["serve"]


@pytest.fixture(scope="session")
def countdown(serve: Serve) -> Server:
    """A server that most tests share."""
    return serve("--env", "countdown", "--env", "calculator")
