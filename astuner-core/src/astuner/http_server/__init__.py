"""A server for an ASGI application that strangers may knock at: bounded in time, size and connections, for known names only."""

from astuner.http_server.hosts import guard_hosts, is_loopback
from astuner.http_server.limits import ServerLimits
from astuner.http_server.listening import listen
from astuner.http_server.server import make_server

__all__ = ["ServerLimits", "guard_hosts", "is_loopback", "listen", "make_server"]
