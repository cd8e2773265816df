"""Failures reported to a client, each with its status."""

from __future__ import annotations

from typing import ClassVar


class Fault(Exception):
    """The text goes to the client as `detail`, without a traceback."""

    status: ClassVar[int] = 500


class BadRequest(Fault):
    """An id or a name that does not exist, or a call that makes no sense now."""

    status = 400


class Unauthorised(Fault):
    """The token is missing or wrong."""

    status = 401


class TooLarge(Fault):
    """The request is too long."""

    status = 413


class OddBody(Fault):
    """The body does not follow the protocol."""

    status = 422


class WorldFailed(Fault):
    """The environment raised; its instance lives on."""


class InstanceLost(Fault):
    """The process of an instance has ended."""


class ServerFull(Fault):
    """The limit of instances is reached: nothing was done, and a later request may succeed."""

    status = 503
