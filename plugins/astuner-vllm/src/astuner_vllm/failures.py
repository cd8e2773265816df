"""Failures of a server, by their consequences."""

from __future__ import annotations

from astuner.contract.errors import AstunerError


class ServerError(AstunerError):
    """A vLLM server failed a request; the message names the server and the reason."""


class ServerLost(ServerError):
    """The connection broke: the same request may succeed elsewhere, or later."""


class ServerSilent(ServerLost):
    """Nothing was received for too long."""


class BadAnswer(ServerError):
    """The server sent an invalid answer."""


class Refused(ServerError):
    """The server answered with an error."""

    def __init__(self, message: str, status: int) -> None:
        """`status` is the HTTP status."""
        super().__init__(message)
        self.status = status

    @property
    def paused(self) -> bool:
        """Whether the server takes no new requests until `resume`."""
        return self.status == 503 and "paused" in str(self)


def describe_error(error: Exception) -> str:
    """Return an error as text with its type."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
