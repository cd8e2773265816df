"""The bearer token for servers that require one, from the environment and never from the YAML."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

TOKEN = "ASTUNER_ENV_TOKEN"
"""The environment variable."""


def read_token(url: str, trusted_urls: tuple[str, ...]) -> str | None:
    """Return the token for a server; None if none is set.

    Only the servers that the configuration names get it: otherwise an address that comes with data would get the secret.
    """
    token = os.environ.get(TOKEN, "").strip()
    return token if token and _parse_origin(url) in map(_parse_origin, trusted_urls) else None


def _parse_origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    secure = parts.scheme in ("https", "wss")
    return ("tls" if secure else "plain", parts.hostname, parts.port or (443 if secure else 80))
