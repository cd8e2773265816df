"""Whether a server's address is local."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_local(url: str) -> bool:
    """Whether a server is on this machine, where no proxy is used."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
