"""What is reported to a client: each fault knows its status."""

from __future__ import annotations

from typing import ClassVar


class Fault(Exception):
    """The text goes to the client as `detail`, without a traceback."""

    status: ClassVar[int] = 500


class BadRequest(Fault):
    """An id or a name that does not exist, or a call that makes no sense now."""

    status = 400


class Unauthorised(Fault):
    """There is no token, or another."""

    status = 401


class TooLarge(Fault):
    """The request is longer than any sensible one."""

    status = 413


class OddBody(Fault):
    """The body has not the form of the protocol."""

    status = 422


class WorldFailed(Fault):
    """The environment raised; its instance lives on."""


class InstanceLost(Fault):
    """The process of an instance has ended."""


class ServerFull(Fault):
    """There are as many instances as may be: nothing was done, and later there may be room."""

    status = 503
