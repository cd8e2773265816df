"""The address of the pages: the server's own, or the one at which a proxy serves it, as JupyterHub and VS Code do."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import unquote, urlsplit

from attrs import frozen

from astuner.contract.errors import UsageError

PUBLIC_URL = "ASTUNER_LOGVIEW_PUBLIC_URL"
_PORTS = {"http": 80, "https": 443}
_OURS = (["api"], ["static"], [""])


@frozen(kw_only=True)
class Address:
    """An address as a browser shows it."""

    scheme: str = "http"
    host: str
    port: int
    path: str = ""
    """Without a slash at its end."""

    def __str__(self) -> str:
        """Return the whole of it, with a slash at its end."""
        return f"{self.origin}{self.path}/"

    @property
    def origin(self) -> str:
        """What a browser says of a request that the pages make."""
        return f"{self.scheme}://{self.hosts[-1]}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a request may call it: with the port, and without one that the scheme implies."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (f"{host}:{self.port}", *([host] if self.port == _PORTS[self.scheme] else []))

    def strip_path(self, scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Return a request without the path of this address, which some proxies take away and some leave."""
        path = self.path.split("/")
        given = scope["raw_path"].decode("latin-1").partition("?")[0].split("/")
        start, rest = given[: len(path)], given[len(path) :]
        if not self.path or [*map(unquote, start)] != [*map(unquote, path)] or rest[:1] not in _OURS:
            return scope
        raw = "/".join(["", *rest])
        return {**scope, "path": unquote(raw), "raw_path": raw.encode("latin-1")}


def read_public_url(text: str, port: int) -> Address:
    """Return the address that `--public-url` gives; `{port}` in it is the viewer's port. Raises `UsageError`."""
    try:
        parts = urlsplit(text.replace("{{port}}", "{port}").replace("{port}", str(port)))
        default = _PORTS.get(parts.scheme)
        if default is None or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("write http(s)://HOST/PATH/, without a query")
        return Address(scheme=parts.scheme, host=parts.hostname, port=parts.port or default, path=parts.path.rstrip("/"))
    except ValueError as error:
        raise UsageError(
            f"--public-url (or {PUBLIC_URL}) {text[:300]!r}: {error}. Example: https://hub.example/user/me/proxy/{{port}}/"
        ) from error
