"""A server for ASGI applications with untrusted clients: it limits time, size, connections and the host names it answers to."""

from astuner.model.http_server.connections import LEAVING, ServerLimits
from astuner.model.http_server.hosts import guard_hosts, is_loopback
from astuner.model.http_server.json_bodies import LARGE_BODY, load_json
from astuner.model.http_server.server import listen, make_server

__all__ = ["LARGE_BODY", "LEAVING", "ServerLimits", "guard_hosts", "is_loopback", "listen", "load_json", "make_server"]
