"""The addresses that traces are sent to."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from attrs import Attribute

PATH = "/v1/traces"
DEFAULT = "http://localhost:4318"
"""Where a collector of OpenTelemetry listens."""
TRACES_VARIABLE, BASE_VARIABLE = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"


def check_address(_: Any, attribute: Attribute[Any], value: str) -> None:
    """Validate an option: http or https, and no password."""
    explain_bad_address(f"'{attribute.name}'", value)


def explain_bad_address(name: str, value: str) -> None:
    """Raise `ValueError` if traces cannot, or must not, be sent to an address."""
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"{name} is not an address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{name} must be http://HOST… or https://HOST…; it takes OTLP over HTTP, not gRPC")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            f"{name} must not hold a password or a query: put keys into 'headers', as in "
            "{Authorization: 'Bearer ${oc.env:MY_KEY}'}"
        )


def complete_address(address: str) -> str:
    """Return the address of traces: that of a server gets the path that the protocol gives to them."""
    return address if address.rstrip("/").endswith(PATH) else address.rstrip("/") + PATH


def find_default_address() -> str:
    """Return where OpenTelemetry's variables say that traces go, as its SDK reads them; a local collector by default."""
    for name, complete in ((TRACES_VARIABLE, False), (BASE_VARIABLE, True)):
        if address := os.environ.get(name):
            explain_bad_address(name, address)
            return complete_address(address) if complete else address
    return complete_address(DEFAULT)
