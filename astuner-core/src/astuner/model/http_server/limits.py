"""What a client may take of a server's time and memory before it has sent a whole request."""

from __future__ import annotations

import resource

from attrs import field, frozen
from attrs.validators import gt

SLOWEST_BYTES = 8 << 10
"""Bytes per second, on average, that a client has to send of a body beyond `body_timeout_s`, and to read of an answer."""


@frozen(kw_only=True)
class ServerLimits:
    """The limits of one server. Giving an answer is not limited: a stream may take as long as it takes."""

    headers_timeout_s: float = field(default=10.0, validator=gt(0))
    """A connection whose first request, or any request that has begun, is not past its headers by then is closed."""
    body_timeout_s: float = field(default=30.0, validator=gt(0))
    """A request whose body is not complete by then is answered 408; large bodies get more time, by `SLOWEST_BYTES`."""
    max_header_bytes: int = field(default=64 << 10, validator=gt(0))
    """Larger headers are answered 431. Each counts 32 bytes beyond its text; those of requests that wait count together."""
    max_waiting: int = field(default=16, validator=gt(0))
    """Requests that a connection may send before an earlier one is answered; at one more it is closed."""
    unread_timeout_s: float = field(default=30.0, validator=gt(0))
    """A connection whose client reads nothing of an answer for so long, or less than `SLOWEST_BYTES`, is closed."""
    max_connections: int = field(default=4096, validator=gt(0))
    """Connections at a time; further clients wait, and idle connections give way to them."""
    idle_timeout_s: int = field(default=600, validator=gt(0))
    """An idle connection is closed after this time. Clients drop theirs after seconds; a server that closes first, just as
    the next request arrives, loses that request."""

    def count_places(self) -> int:
        """Return how many connections may be open: part of the file descriptors is left for everything else."""
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most == resource.RLIM_INFINITY:
            return self.max_connections
        return max(1, min(self.max_connections, max(most // 2, most - 256)))
